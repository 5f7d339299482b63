/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the command, explains them, and turns wrong calls into messages. */
#include "cli/command.h"

#include <signal.h>
#include <string.h>

#include "base/file.h"
#include "cli/options/did_you_mean.h"
#include "cli/terminal/term.h"
#include "eyelet/engine.h"

static const struct command commands[] = {
    {"ask", ASK, cmd_ask, "[IMAGE...] QUESTION", "an answer about one or several pictures",
     "The last argument is the question, those before it are pictures: JPEG, PNG, WebP, GIF, HEIC "
     "or AVIF\n"
     "files, or - for standard input. The answer is printed as it grows; Ctrl-C ends it where it "
     "is.\n"
     "\n"
     "  eyelet ask photo.jpg \"What is this?\"\n"
     "  eyelet ask before.png after.png \"What has changed?\" --json\n"
     "  eyelet ask door.jpg \"Is the door open?\" --choice yes --choice no\n"
     "\n"
     "With --choice or --schema nothing else can be answered, and the likeliest tokens are taken "
     "unless --temperature says\n"
     "otherwise. An answer that --max-tokens cut is told on standard error, and the exit status is "
     "1.\n"},
    {"caption", CAPTION, cmd_caption, "IMAGE...", "a sentence for each picture",
     "The model is loaded once. A picture that cannot be read is reported and the others go on; "
     "the exit\n"
     "status is then 1. --json prints one object a line.\n"
     "\n"
     "  eyelet caption photos/*.jpg\n"},
    {"extract", EXTRACT, cmd_extract, "IMAGE...", "fields of a JSON schema from each picture",
     "Each picture gives one line, {\"image\": NAME, \"data\": …}, and the data fits the schema of "
     "--schema. The model is loaded\n"
     "once. A picture that cannot be read, or whose answer --max-tokens cut, has \"error\" in "
     "place of \"data\", and the others\n"
     "go on; the exit status is then 1. --json adds usage and timings. What the schema cannot have "
     "is said before the model is\n"
     "loaded.\n"
     "\n"
     "  eyelet extract invoices/*.jpg --schema invoice.json\n"
     "  eyelet extract meter.jpg --schema meter.json --prompt \"Read the meter.\" | jq .data\n"},
    {"scene", SCENE, cmd_scene, "IMAGE", "a full description",
     "As ask with the question \"Describe this image in detail.\"\n"},
    {"read", READ, cmd_read, "IMAGE", "the text in the picture",
     "As ask with the question \"Read all the text in the image.\", always the likeliest tokens, "
     "at high detail.\n"},
    {"detect", DETECT, cmd_detect, "IMAGE WHAT", "boxes as JSON, in pixels",
     "WHAT is one thing or several with commas between them. One line of JSON: a label and the "
     "corners x1, y1, x2, y2 of\n"
     "each, in pixels of the upright picture; [] when there is none. The model can answer with "
     "boxes only; an answer that\n"
     "was cut before the first is shown on standard error, and the exit status is 1. --draw paints "
     "the boxes into a copy of the picture.\n"
     "\n"
     "  eyelet detect street.jpg \"car, person\" --draw found.png\n"},
    {"chat", CHAT, cmd_chat, "[IMAGE...]", "a conversation in the terminal",
     "Each line is a message; pictures go with the first one, or with the next after /image PATH. "
     "Ctrl-C stops an\n"
     "answer, Ctrl-D leaves, /help tells the rest. When standard input is no terminal, answers are "
     "printed without\n"
     "prompts, and the exit status is 1 when a line failed.\n"
     "\n"
     "  eyelet chat photo.jpg\n"},
    {"serve", SERVE, cmd_serve, "[MODEL...]", "the OpenAI API, metrics and a web page on port 8000",
     "The port is open at once; requests wait until the model is loaded. Ctrl-C or SIGTERM lets "
     "answers come to their end,\n"
     "a second one stops at once. Flags of vLLM that mean nothing here are named and passed over.\n"
     "Of several models requests choose one by \"model\"; those that fit together stay loaded, "
     "others take turns.\n"
     "\n"
     "  eyelet serve Qwen/Qwen3-VL-2B-Instruct-FP8 --max-model-len 4096\n"
     "  curl http://localhost:8000/v1/models\n"},
    {"plan", PLAN, cmd_plan, "[MODEL...]",
     "what would be allocated where, and what would make it fit",
     "From the checkpoint's headers alone: no weight is read and nothing is allocated. With --vram "
     "the card need not be\n"
     "here. What the plan chooses by itself to fit is said, and what would make it fit when it "
     "does not; the exit status\n"
     "is then 1. Of several models: which fit together, and which take turns.\n"
     "\n"
     "  eyelet plan Qwen/Qwen3-VL-2B-Instruct-FP8 --max-num-seqs 4\n"
     "  eyelet plan Qwen/Qwen3-VL-4B-Instruct-FP8 --vram 8151MiB --vram-used 1151MiB --sm-count "
     "30\n"},
    {"quantize", QUANTIZE, cmd_quantize, "MODEL OUT",
     "a model with 4-bit or 8-bit weights, kept as a checkpoint",
     "What --quantize makes while loading, in the new directory OUT: loaded, it gives the same "
     "answers. int4 is written in the layout of\n"
     "compressed-tensors (pack-quantized), fp8 in that of the official files. Matrices that would "
     "lose too much in four bits stay as\n"
     "they are and are named.\n"
     "\n"
     "  eyelet quantize Qwen/Qwen3-VL-8B-Instruct-FP8 qwen3-vl-8b-int4 --group-size 64\n"},
    {"bench", BENCH, cmd_bench, "", "how fast: load, vision, prefill, decode",
     "Runs each phase on a picture of its own and prints its share of what this machine can do at "
     "most, measured in\n"
     "the same run: reading memory for decode, multiply-adds for vision and prefill.\n"},
    {"tokenize", TOKENIZE, cmd_tokenize, "TEXT", "the tokens of a text, one a line",
     "TEXT may be - for standard input. Each line is an id, a tab and the token's text as a JSON "
     "string.\n"},
    {"doctor", DOCTOR, cmd_doctor, "",
     "what this machine has for models, what is wrong with it, and what helps",
     "The card, who holds its memory and how fast that is read, the processor, memory, disks, "
     "WSL2; with --model also\n"
     "whether that model would start. The exit status is 0 when something can be run, or the model "
     "that was named.\n"
     "\n"
     "  eyelet doctor --model Qwen/Qwen3-VL-4B-Instruct-FP8\n"},
    {"pull", PULL, cmd_pull, "MODEL", "download a model into the Hugging Face cache",
     "MODEL is owner/name, as on the hub. What eyelet and transformers read of it goes into the "
     "cache that Hugging Face's tools keep,\n"
     "so that all of them see the same files. Before that it says whether the model will run here, "
     "by its headers. What is stopped or\n"
     "broken off goes on where it was when the same is run again; the hash of each file is "
     "checked. Prints the folder.\n"
     "\n"
     "  eyelet pull Qwen/Qwen3-VL-2B-Instruct-FP8\n"
     "\n"
     "HF_TOKEN (or the token that `hf auth login` keeps) is sent to HF_ENDPOINT alone, by default "
     "https://huggingface.co;\n"
     "HTTPS_PROXY and NO_PROXY say how to get there, SSL_CERT_FILE whom to trust; with "
     "HF_HUB_OFFLINE=1 nothing is asked.\n"},
    {"list", LIST, cmd_list, "",
     "the models in the Hugging Face cache, and whether they fit this machine",
     "The cache is $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else\n"
     "~/.cache/huggingface/hub.\n"},
    {"rm", RM, cmd_rm, "MODEL", "remove a model from the Hugging Face cache",
     "Asks first. With --revision what other revisions share stays. Links are not followed.\n"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct command *command_at(size_t i)
{
    return i < N_COMMANDS ? &commands[i] : NULL;
}

const char *command_name(unsigned bit)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].bit == bit) return commands[i].name;
    return "";
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* ---- help ---- */

static void print_overview(FILE *out)
{
    fprintf(out, "eyelet %s: pictures and text in, text out, with Qwen3-VL models\n\n",
            ey_version());
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  eyelet %-8s %-20s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
    fprintf(out, "  eyelet %-8s %-20s %s\n", "help", "[COMMAND]",
            "this text, or a command's options");
    fprintf(out, "\nThe model is --model, else $EYELET_MODEL, else the largest Qwen3-VL in the "
                 "Hugging Face cache, else the\n"
                 "demo that comes with the program. `eyelet pull` downloads one.\n"
                 "Answers go to standard output, everything else to standard error.\n"
                 "Exit status: 0 done, 1 it failed, 2 the call is wrong.\n");
}

static void print_command(FILE *out, const struct command *c)
{
    fprintf(out, "eyelet %s%s%s: %s\n\n%s\nOptions:\n", c->name, c->arguments[0] ? " " : "",
            c->arguments, c->summary, c->text);
    options_print(out, c->bit);
}

static int print_help(const struct command *c)
{
    struct term out = term_stdout();
    if (c)
        print_command(stdout, c);
    else
        print_overview(stdout);
    return term_finish(&out, 0);
}

static int print_version(void)
{
    struct term out = term_stdout();
    printf("eyelet %s\n", ey_version());
    return term_finish(&out, 0);
}

/* ---- wrong calls ---- */

static int wrong_call(const ey_err *e, const char *command)
{
    fprintf(stderr, "eyelet: %s\n", e->text);
    if (e->code == EY_BAD_REQUEST)
        fprintf(stderr, "Try: eyelet help%s%s\n", command ? " " : "", command ? command : "");
    return ey_code_exit_status(e->code);
}

static int unknown_command(const char *name)
{
    ey_err e;
    struct did_you_mean suggestion = did_you_mean_start(name, strlen(name));
    for (size_t i = 0; i < N_COMMANDS; i++)
        did_you_mean_add(&suggestion, commands[i].name);
    did_you_mean_add(&suggestion, "help");
    if (name[0] == '-')
        ey_fail(&e, EY_BAD_REQUEST,
                "\"%s\" is no command; options go after the command: eyelet ask photo.jpg \"What "
                "is this?\" --json",
                name);
    else if (path_is_file(name))
        ey_fail(&e, EY_BAD_REQUEST,
                "\"%s\" is no command; to ask about that picture: eyelet ask %s \"What is this?\"",
                name, name);
    else if (suggestion.best)
        ey_fail(&e, EY_BAD_REQUEST, "there is no command \"%s\"; did you mean %s?", name,
                suggestion.best);
    else
        ey_fail(&e, EY_BAD_REQUEST, "there is no command \"%s\"", name);
    return wrong_call(&e, NULL);
}

/* ---- dispatch ---- */

static int run_command(const struct command *c, int argc, char **argv)
{
    ey_err e;
    struct options options;
    int status;
    if (!options_parse(&options, c->bit, argc, argv, &e))
        status = wrong_call(&e, c->name);
    else if (options.help)
        status = print_help(c);
    else
        status = c->run(&options);
    options_free(&options);
    return status;
}

static int help(int argc, char **argv)
{
    const struct command *c = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc > 0 && !c && strcmp(argv[0], "help") != 0) return unknown_command(argv[0]);
    return print_help(c);
}

static bool is_any(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

int cli_run(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that has had enough is seen as a failed write */
    if (argc < 2) {
        print_overview(stderr);
        return 2;
    }
    if (is_any(argv[1], "help", "--help", "-h")) return help(argc - 2, argv + 2);
    if (is_any(argv[1], "version", "--version", "-V")) return print_version();
    const struct command *c = find_command(argv[1]);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(argv[1]);
}
