/* SPDX-License-Identifier: Apache-2.0 */
/* Every command, in the order in which the overview lists them. */
#include "cli/commands/command_table.h"

#include "cli/commands/commands.h"

static const struct command commands[] = {
    {"ask", ASK, cmd_ask, "[IMAGE...] QUESTION", "an answer about one or several images",
     "The last argument is the question; the ones before it are images: JPEG, PNG, WebP, GIF,\n"
     "HEIC, AVIF, TIFF, BMP or PNM files, all pages of a PDF (read with pdftoppm from\n"
     "poppler-utils) or TIFF, or - for standard input. The answer is printed while it is\n"
     "generated; Ctrl-C stops it.\n"
     "\n"
     "  eyelet ask photo.jpg \"What is this?\"\n"
     "  eyelet ask before.png after.png \"What has changed?\" --json\n"
     "  eyelet ask door.jpg \"Is the door open?\" --choice yes --choice no\n"
     "  eyelet ask photos/ \"Is a person in it?\" --choice yes --choice no --csv\n"
     "  eyelet ask contract.pdf \"When does it end?\" --pages 1-3\n"
     "\n"
     "With a folder, -r, -o, --each, --csv, --jsonl or --sidecar the question is asked once\n"
     "for each image; otherwise it is one question about all images.\n"
     "\n"
     "--choice and --schema constrain the answer. Decoding is then greedy unless --temperature\n"
     "is given. If --max-tokens cuts a constrained answer, eyelet says so and exits with\n"
     "status 1.\n"},
    {"caption", CAPTION, cmd_caption, "IMAGE...", "a sentence for each image",
     "The model is loaded once. A folder stands for the images in it and, with -r, in its\n"
     "subfolders. An image that cannot be read is reported, the others are captioned, and the\n"
     "exit status is 1. --json prints one object per line. A PDF or TIFF gets one caption for\n"
     "all its pages or, with --each, one for each page; report.pdf#page=2 names a single page.\n"
     "\n"
     "  eyelet caption photos/*.jpg\n"
     "  eyelet caption -r photos/ --csv -o captions.csv --resume\n"
     "  eyelet caption -r photos/ --sidecar        # photo.txt next to photo.jpg\n"},
    {"extract", EXTRACT, cmd_extract, "IMAGE...", "fields of a JSON schema from each image",
     "Prints one line per image, {\"image\": NAME, \"data\": ...}, whose data matches --schema.\n"
     "The model is loaded once, after the schema was checked. If an image cannot be read, or\n"
     "--max-tokens cuts its answer, the line has \"error\" instead of \"data\", the other images\n"
     "are still answered, and the exit status is 1. --json adds usage and timings. A PDF or\n"
     "TIFF gives one line with data from all its pages or, with --each, one line for each\n"
     "page.\n"
     "\n"
     "  eyelet extract invoices/*.jpg --schema invoice.json\n"
     "  eyelet extract meter.jpg --schema meter.json --prompt \"Read the meter.\" | jq .data\n"},
    {"scene", SCENE, cmd_scene, "IMAGE...", "a full description",
     "Does the same as ask with the question \"Describe this image in detail.\" Several images\n"
     "and folders work as in caption.\n"},
    {"read", READ, cmd_read, "IMAGE...", "the text in the image",
     "Does the same as ask with the question \"Read all the text in the image.\", but decodes\n"
     "greedily and at high detail. Several images and folders work as in caption. The pages of\n"
     "a PDF or TIFF are read one after the other, and their texts are joined into one answer;\n"
     "with --each, each page has its own answer.\n"
     "\n"
     "  eyelet read scan.pdf --pages 1-3 --as markdown -o scan.md\n"},
    {"detect", DETECT, cmd_detect, "IMAGE... WHAT", "boxes as JSON, in pixels",
     "WHAT is one kind of object, or several separated by commas. Prints one line of JSON with\n"
     "a label for each box and its corners x1, y1, x2, y2 in pixels of the upright image, or\n"
     "[] if nothing was found; on a terminal, prints a table unless --json is given. The model\n"
     "can only answer with boxes. If its answer is cut before the first box, it is printed on\n"
     "standard error and the exit status is 1. --draw draws the boxes into a copy of the\n"
     "image.\n"
     "\n"
     "For several images, a folder or a document, prints one line of JSON with \"image\" and\n"
     "\"boxes\" for each image or page.\n"
     "\n"
     "  eyelet detect street.jpg \"car, person\" --draw found.png\n"
     "  eyelet detect -r camera/ person --csv -o people.csv\n"},
    {"chat", CHAT, cmd_chat, "[IMAGE...]", "a conversation in the terminal",
     "Each line is a message. IMAGE is sent with the first message; /image PATH adds an image\n"
     "to the next one. Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands:\n"
     "/retry, /system, /set, /save and others. On a terminal, Alt-Enter begins a new line, and\n"
     "the up key brings back earlier lines. They are kept for later runs in\n"
     "~/.local/state/eyelet/chat-history, which only you can read; --no-history keeps none. If\n"
     "standard input is not a terminal, eyelet prints answers without prompts, and the exit\n"
     "status is 1 if a line failed.\n"
     "\n"
     "  eyelet chat photo.jpg\n"
     "  eyelet chat --system \"Answer in one sentence.\" photo.jpg\n"},
    {"search", SEARCH, cmd_search, "FOLDER [QUERY]", "the images of a folder that match a text",
     "Keeps an index of the images in the folder and its subfolders, in the file\n"
     "FOLDER/.eyelet-index.sqlite, and prints the images that match best with their scores.\n"
     "Each run indexes images that are new or whose size or time has changed, and removes\n"
     "deleted ones from the index. A run that was stopped is resumed by the next one. Without\n"
     "QUERY or --like it only updates the index. Needs an embedding model\n"
     "(docs/guides/embeddings.md).\n"
     "\n"
     "  eyelet search photos \"red bicycle at night\"\n"
     "  eyelet search photos --like bicycle.jpg --top 5 --json\n"},
    {"embed", EMBED, cmd_embed, "TEXT|IMAGE...", "vectors of texts and images, a line of JSON each",
     "An argument that is a file or a URL stands for an image, a folder for the images in it,\n"
     "and any other argument is a text. Each line of --lines FILE, or of standard input if\n"
     "there are no arguments, is a text or a JSON object with \"text\", \"image\" (a file) and\n"
     "\"instruction\". Needs an embedding model.\n"
     "\n"
     "  eyelet embed \"a red bicycle\" bicycle.jpg --dimensions 256\n"
     "  eyelet embed --lines captions.txt -o vectors.jsonl\n"},
    {"serve", SERVE, cmd_serve, "[MODEL...]", "the OpenAI API, metrics and a web page on port 8000",
     "The port opens immediately; requests wait until the model is loaded. After Ctrl-C or\n"
     "SIGTERM the server finishes running requests and exits. A second Ctrl-C cancels them,\n"
     "and so does a SIGTERM that comes at least a second later. SIGHUP rereads key files and\n"
     "certificates. Options of vLLM that have no effect in eyelet are listed and ignored. With\n"
     "several models, \"model\" in a request selects one; models that fit together stay loaded,\n"
     "and the others are loaded on demand.\n"
     "\n"
     "  eyelet serve Qwen/Qwen3-VL-2B-Instruct-FP8 --max-model-len 4096\n"
     "  eyelet serve --config serve.yaml --port 8001\n"
     "  curl http://localhost:8000/v1/models\n"},
    {"plan", PLAN, cmd_plan, "[MODEL...]",
     "the memory that models would take, and options to make them fit",
     "Reads only the checkpoint's headers and allocates nothing. A model that is not in the\n"
     "cache is not downloaded: the shapes of the official models are built in, and the headers\n"
     "of others are read from the hub. With --vram, plans for a GPU that this machine need not\n"
     "have. Lists the options that were chosen so that the model fits. If it does not fit,\n"
     "lists the options with which it would, and the exit status is 1. For several models,\n"
     "says which fit together and which would be loaded on demand.\n"
     "\n"
     "  eyelet plan Qwen/Qwen3-VL-2B-Instruct-FP8 --max-num-seqs 4\n"
     "  eyelet plan Qwen/Qwen3-VL-4B-Instruct-FP8 --vram 8151MiB --vram-used 1151MiB --sm-count "
     "30\n"},
    {"quantize", QUANTIZE, cmd_quantize, "MODEL OUT",
     "write a checkpoint with 4-bit or 8-bit weights",
     "Writes the weights that --quantize computes while loading to the new directory OUT.\n"
     "The model in OUT gives the same answers as the original with --quantize. int4 uses the\n"
     "layout of compressed-tensors (pack-quantized), fp8 that of the official files. Matrices\n"
     "that would lose too much accuracy in four bits are listed and not quantized.\n"
     "\n"
     "  eyelet quantize Qwen/Qwen3-VL-8B-Instruct-FP8 qwen3-vl-8b-int4 --group-size 64\n"},
    {"convert", CONVERT, cmd_convert, "MODEL OUT", "write a model in another format, without loss",
     "If OUT ends with .gguf, converts safetensors to GGUF for llama.cpp and Ollama, and\n"
     "writes mmproj-OUT next to it if the model reads images. Otherwise converts GGUF, AWQ or\n"
     "GPTQ to safetensors in the new folder OUT, for transformers and vLLM\n"
     "(compressed-tensors). Every value stays the same. If the other format cannot hold a\n"
     "matrix, convert names it and fails; with --float32 the matrix becomes float32.\n"
     "\n"
     "  eyelet convert Qwen/Qwen3-VL-2B-Instruct qwen3-vl-2b.gguf\n"
     "  eyelet convert qwen3-4b-q8_0.gguf qwen3-4b --float32\n"},
    {"bench", BENCH, cmd_bench, "", "the speed of loading, vision, prefill and decode",
     "Runs each phase on a generated image and prints its speed as a share of this machine's\n"
     "limits, measured in the same run: memory bandwidth for decode, multiply-adds for vision\n"
     "and prefill.\n"},
    {"tokenize", TOKENIZE, cmd_tokenize, "TEXT", "the tokens of a text, one a line",
     "TEXT may be - for standard input. Each line is an id, a tab and the token's text as a JSON\n"
     "string.\n"},
    {"doctor", DOCTOR, cmd_doctor, "", "whether this machine can run models, and what to fix",
     "Checks the GPU, the processes that use its memory, its bandwidth, the processor, host\n"
     "memory, disks and WSL2; with --model, checks also whether that model would start. The\n"
     "exit status is 0 if the given model, or without --model any model, can run.\n"
     "\n"
     "  eyelet doctor --model Qwen/Qwen3-VL-4B-Instruct-FP8\n"},
    {"pull", PULL, cmd_pull, "[MODEL]", "download a model into the Hugging Face cache",
     "MODEL is owner/name, as on the hub, or a short name such as qwen3-vl:4b. Without it, eyelet\n"
     "says which official model is best for this machine and asks whether to download it.\n"
     "Downloads only the files that eyelet and transformers use, to the cache that Hugging\n"
     "Face's tools share. First reads the headers and says whether the model will run here.\n"
     "Repeat the command to continue an interrupted download; the hash of each file is checked.\n"
     "Prints the directory.\n"
     "\n"
     "  eyelet pull Qwen/Qwen3-VL-2B-Instruct-FP8\n"
     "  eyelet pull qwen3-vl:4b-thinking\n"
     "\n"
     "HF_TOKEN (or the token of `hf auth login`) is sent only to HF_ENDPOINT, by default\n"
     "https://huggingface.co. HTTPS_PROXY and NO_PROXY select a proxy, SSL_CERT_FILE the trusted\n"
     "certificates; with HF_HUB_OFFLINE=1 nothing is downloaded.\n"},
    {"list", LIST, cmd_list, "",
     "the models in the Hugging Face cache, and whether they fit this machine",
     "The cache is $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else\n"
     "~/.cache/huggingface/hub.\n"},
    {"rm", RM, cmd_rm, "MODEL", "remove a model from the Hugging Face cache",
     "Asks first. With --revision, keeps files that other revisions use. Does not follow\n"
     "links.\n"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct command *command_at(size_t i)
{
    return i < N_COMMANDS ? &commands[i] : NULL;
}
