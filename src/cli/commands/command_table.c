/* SPDX-License-Identifier: Apache-2.0 */
/* Every command, in the order in which the overview lists them. */
#include "cli/commands/command_table.h"

#include "cli/commands/commands.h"

static const struct command commands[] = {
    {"ask", ASK, cmd_ask, "[IMAGE...] QUESTION", "an answer about one or several images",
     "The last argument is the question; the ones before it are images: JPEG, PNG, WebP, GIF, "
     "HEIC,\n"
     "AVIF, TIFF, BMP or PNM files, all pages of a PDF (by pdftoppm of poppler-utils) or TIFF, or "
     "-\n"
     "for standard input. The answer is printed while it is generated; Ctrl-C stops it.\n"
     "\n"
     "  eyelet ask photo.jpg \"What is this?\"\n"
     "  eyelet ask before.png after.png \"What has changed?\" --json\n"
     "  eyelet ask door.jpg \"Is the door open?\" --choice yes --choice no\n"
     "  eyelet ask photos/ \"Is a person in it?\" --choice yes --choice no --csv\n"
     "  eyelet ask contract.pdf \"When does it end?\" --pages 1-3\n"
     "\n"
     "With a folder, -r, --each, --csv, --jsonl or --sidecar the question is put once for each\n"
     "image; without, it is one question about all of them.\n"
     "\n"
     "--choice and --schema constrain the answer, which is then greedy unless --temperature is\n"
     "given. If --max-tokens cuts such an answer, a message says so and the exit status is 1.\n"},
    {"caption", CAPTION, cmd_caption, "IMAGE...", "a sentence for each image",
     "The model is loaded once. A folder stands for the images in it, with -r also for those "
     "below\n"
     "its folders. An image that cannot be read is reported and the others continue; the exit\n"
     "status is then 1. --json prints one object a line. The pages of a PDF or TIFF get one "
     "caption,\n"
     "with --each one each; a page alone is named report.pdf#page=2.\n"
     "\n"
     "  eyelet caption photos/*.jpg\n"
     "  eyelet caption -r photos/ --csv -o captions.csv --resume\n"
     "  eyelet caption -r photos/ --sidecar        # photo.txt beside photo.jpg\n"},
    {"extract", EXTRACT, cmd_extract, "IMAGE...", "fields of a JSON schema from each image",
     "Prints one line per image, {\"image\": NAME, \"data\": ...}, whose data matches --schema. "
     "The\n"
     "model is loaded once, after the schema was checked. If an image cannot be read, or\n"
     "--max-tokens cuts its answer, the line has \"error\" instead of \"data\", the other images\n"
     "continue, and the exit status is 1. --json adds usage and timings. A PDF or TIFF is one\n"
     "document, and the data comes from all its pages together; --each takes it from each page.\n"
     "\n"
     "  eyelet extract invoices/*.jpg --schema invoice.json\n"
     "  eyelet extract meter.jpg --schema meter.json --prompt \"Read the meter.\" | jq .data\n"},
    {"scene", SCENE, cmd_scene, "IMAGE...", "a full description",
     "The same as ask with the question \"Describe this image in detail.\" Several images and\n"
     "folders as with caption.\n"},
    {"read", READ, cmd_read, "IMAGE...", "the text in the image",
     "The same as ask with the question \"Read all the text in the image.\", greedy and at high\n"
     "detail. Several images and folders as with caption. The pages of a PDF or TIFF are read one\n"
     "after the other and their texts joined into one answer; with --each each page has its own.\n"
     "\n"
     "  eyelet read scan.pdf --pages 1-3 --as markdown -o scan.md\n"},
    {"detect", DETECT, cmd_detect, "IMAGE... WHAT", "boxes as JSON, in pixels",
     "WHAT is one thing, or several separated by commas. Prints one line of JSON: for each box a\n"
     "label and its corners x1, y1, x2, y2 in pixels of the upright image; [] if there is none. "
     "The\n"
     "model can only answer with boxes. If its answer is cut before the first one, the answer "
     "goes\n"
     "to standard error and the exit status is 1. --draw draws the boxes into a copy of the "
     "image.\n"
     "\n"
     "Several images, a folder and the pages of a document give one line of JSON each, with "
     "\"image\"\n"
     "and \"boxes\".\n"
     "\n"
     "  eyelet detect street.jpg \"car, person\" --draw found.png\n"
     "  eyelet detect -r camera/ person --csv -o people.csv\n"},
    {"chat", CHAT, cmd_chat, "[IMAGE...]", "a conversation in the terminal",
     "Each line is a message. Images go with the first one, or with the next one after /image "
     "PATH.\n"
     "Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands: /retry, /system, /set, "
     "/save\n"
     "and others. On a terminal Alt-Enter begins a new line, and the up key brings back what was\n"
     "typed, also in earlier runs (~/.local/state/eyelet/chat-history, for you alone;\n"
     "--no-history). If standard input is not a terminal, answers are printed without prompts, "
     "and\n"
     "the exit status is 1 if a line failed.\n"
     "\n"
     "  eyelet chat photo.jpg\n"
     "  eyelet chat --system \"Answer in one sentence.\" photo.jpg\n"},
    {"search", SEARCH, cmd_search, "FOLDER [QUERY]", "the images of a folder that fit a text",
     "Keeps an index of the folder's images, sub-folders included, in the file "
     ".eyelet-index.sqlite\n"
     "there, and prints the best with their scores. Each run indexes new and changed images, by\n"
     "size and time, forgets deleted ones, and resumes where an earlier run was stopped. Without\n"
     "QUERY or --like it only updates the index.\n"
     "Needs an embedding model (docs/guides/embeddings.md).\n"
     "\n"
     "  eyelet search photos \"red bicycle at night\"\n"
     "  eyelet search photos --like bicycle.jpg --top 5 --json\n"},
    {"embed", EMBED, cmd_embed, "TEXT|IMAGE...", "vectors of texts and images, a line of JSON each",
     "An argument that names a file, a folder or a URL stands for an image, or for the folder's\n"
     "images; any other is a text. --lines FILE, or standard input without arguments, has a text "
     "or\n"
     "a JSON object with \"text\", \"image\" (a file) and \"instruction\" on each line. Needs an\n"
     "embedding model.\n"
     "\n"
     "  eyelet embed \"a red bicycle\" bicycle.jpg --dimensions 256\n"
     "  eyelet embed --lines captions.txt -o vectors.jsonl\n"},
    {"serve", SERVE, cmd_serve, "[MODEL...]", "the OpenAI API, metrics and a web page on port 8000",
     "The port opens immediately; requests wait until the model is loaded. Ctrl-C or SIGTERM lets\n"
     "running requests finish, and a second one stops them (SIGTERM: after a second). SIGHUP "
     "reads\n"
     "files of keys and certificates again. Options of vLLM that have no effect here are listed "
     "and\n"
     "ignored. With several models, \"model\" in a request selects one; models that fit together\n"
     "stay loaded, and the others are loaded on demand.\n"
     "\n"
     "  eyelet serve Qwen/Qwen3-VL-2B-Instruct-FP8 --max-model-len 4096\n"
     "  eyelet serve --config serve.yaml --port 8001\n"
     "  curl http://localhost:8000/v1/models\n"},
    {"plan", PLAN, cmd_plan, "[MODEL...]",
     "what would be allocated where, and what would make it fit",
     "Reads only the checkpoint's headers and allocates nothing. A model that is not in the cache "
     "is\n"
     "not downloaded: the shapes of the official models are built in, and for others the hub is\n"
     "asked for the headers. With --vram it plans for a GPU that need not be present. Lists the\n"
     "options that the plan chose to fit, or, if it does not fit, those that would make it fit; "
     "the\n"
     "exit status is then 1. With several models it says which of them fit together, and which "
     "are\n"
     "loaded on demand.\n"
     "\n"
     "  eyelet plan Qwen/Qwen3-VL-2B-Instruct-FP8 --max-num-seqs 4\n"
     "  eyelet plan Qwen/Qwen3-VL-4B-Instruct-FP8 --vram 8151MiB --vram-used 1151MiB --sm-count "
     "30\n"},
    {"quantize", QUANTIZE, cmd_quantize, "MODEL OUT",
     "writes a checkpoint with 4-bit or 8-bit weights",
     "Writes what --quantize makes while loading to the new directory OUT; loaded from there, the\n"
     "model gives the same answers. int4 uses the layout of compressed-tensors (pack-quantized), "
     "fp8\n"
     "that of the official files. Matrices that would lose too much in four bits are listed and\n"
     "stay as they are.\n"
     "\n"
     "  eyelet quantize Qwen/Qwen3-VL-8B-Instruct-FP8 qwen3-vl-8b-int4 --group-size 64\n"},
    {"convert", CONVERT, cmd_convert, "MODEL OUT", "writes a model in another format, without loss",
     "If OUT ends with .gguf, converts safetensors to GGUF for llama.cpp and Ollama, with "
     "mmproj-OUT\n"
     "beside it if the model reads images. Otherwise converts GGUF, AWQ or GPTQ to safetensors in\n"
     "the new folder OUT, for transformers and vLLM (compressed-tensors). Every value stays the "
     "same.\n"
     "Matrices that the other format cannot hold are refused and named, or with --float32 become\n"
     "float32.\n"
     "\n"
     "  eyelet convert Qwen/Qwen3-VL-2B-Instruct qwen3-vl-2b.gguf\n"
     "  eyelet convert qwen3-4b-q8_0.gguf qwen3-4b --float32\n"},
    {"bench", BENCH, cmd_bench, "", "how fast: load, vision, prefill, decode",
     "Runs each phase on a generated image and prints its speed as a share of this machine's "
     "limits,\n"
     "measured in the same run: memory bandwidth for decode, multiply-adds for vision and "
     "prefill.\n"},
    {"tokenize", TOKENIZE, cmd_tokenize, "TEXT", "the tokens of a text, one a line",
     "TEXT may be - for standard input. Each line is an id, a tab and the token's text as a JSON\n"
     "string.\n"},
    {"doctor", DOCTOR, cmd_doctor, "",
     "what this machine has for models, what is wrong, and what helps",
     "Checks the GPU, the processes that use its memory, its bandwidth, the processor, host "
     "memory,\n"
     "disks and WSL2; with --model also whether that model would start. The exit status is 0 if "
     "some\n"
     "model, or the given one, can run.\n"
     "\n"
     "  eyelet doctor --model Qwen/Qwen3-VL-4B-Instruct-FP8\n"},
    {"pull", PULL, cmd_pull, "[MODEL]", "download a model into the Hugging Face cache",
     "MODEL is owner/name, as on the hub, or a short name such as qwen3-vl:4b. Without it, eyelet\n"
     "says which official model is best for this machine and asks whether to download it.\n"
     "Downloads the files that eyelet and transformers read into the cache that Hugging Face's\n"
     "tools share. First reads the headers and says whether the model will run here. Repeat the\n"
     "command to continue an interrupted download; the hash of each file is checked. Prints the\n"
     "directory.\n"
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
     "Asks first. With --revision, files that other revisions share stay. Does not follow "
     "links.\n"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct command *command_at(size_t i)
{
    return i < N_COMMANDS ? &commands[i] : NULL;
}
