// Writes small/tokenizer.json, a byte-level BPE like Qwen's with a few dozen merges, and small/cases.json, texts with
// their ids by Hugging Face's JavaScript implementation.
import { writeFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const printable = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
const letters = [];
for (let b = 0, next = 256; b < 256; b++) letters.push(String.fromCharCode(printable(b) ? b : next++));
const spell = (text) => [...new TextEncoder().encode(text)].map((b) => letters[b]).join("");

const merges = [
  [" ", " "], ["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], [" ", "hello"], ["  ", "  "], ["\n", "\n"],
  ["o", "r"], [" ", "w"], [" w", "or"], ["l", "d"], [" wor", "ld"], ["i", "n"], ["in", "g"], ["t", "h"], ["th", "e"],
  [" ", "the"], ["a", "a"], ["aa", "aa"], ["aaaa", "aaaa"], ["u", "s"], ["e", "r"], ["us", "er"], ["'", "s"], ["1",
  "2"],
  [".", "\n"], [",", " "],
].map(([a, b]) => [spell(a), spell(b)]);
const bytes = (...list) => list.map((b) => letters[b]).join("");
merges.push([bytes(0xc3), bytes(0xa9)], [bytes(0xe4), bytes(0xbd)], [bytes(0xe4, 0xbd), bytes(0xa0)], [bytes(0xf0),
  bytes(0x9f)]);

const vocab = {};
for (let b = 0; b < 256; b++) vocab[letters[b]] = b;
for (const [a, b] of merges) vocab[a + b] = Object.keys(vocab).length;

const names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
  "<tool_call>",
  "</tool_call>", "<tool_response>", "</tool_response>", "<|im_start|>system", "<|left|>", "<|right|>", "zebra",
  "cafe\u0301"];
const added_tokens = names.map((content, i) => ({
  id: 300 + i, content, single_word: content === "zebra", lstrip: content === "<|left|>",
  rstrip: content === "<|right|>",
  normalized: content.startsWith("cafe"), special: content.startsWith("<|"),
}));

const pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+" +
  "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const tokenizer = {
  version: "1.0", truncation: null, padding: null, added_tokens,
  normalizer: { type: "NFC" },
  pre_tokenizer: { type: "Sequence", pretokenizers: [
    { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false }] },
  post_processor: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "",
  fuse_unk: false,
    byte_fallback: false, ignore_merges: false, vocab, merges },
};
writeFileSync("small/tokenizer.json", JSON.stringify(tokenizer) + "\n");

const texts = ["", " ", "  ", "   ", "     ", "\n", "\n\n", "\n\n\n", " \n \n  x", "hello", "hello world",
  "  hello   world  ", "the thing", "The user's thing",
  "USER'S", "aaaaaaa", "aaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaa", "12 123", "a12", "caf\u00e9", "cafe\u0301s",
  "e\u0323\u0301", "\u4f60\u597d", "\ud83d\ude0a!",
  "say: \"hello\".\n\nworld, the end", "\u1112\u1161\u11ab", "\u00bd\u2082", "tab\there", "'s 'S 'llama", "x\r\ny",
  "\u0e1b\u0e35", "a\u200db", "hello\u00a0world", "\u3000\u3000x",
  "<|im_start|>user\nhello<|im_end|>\n", "<|im_start|>system\nhello", "<tool_call>{}</tool_call>", "<|im_start",
  "<<|im_end|>>"];
const model = new Tokenizer(tokenizer, {});
const cases = texts.map((text) => ({ text, ids: model.encode(text, { add_special_tokens: false }).ids }));
writeFileSync("small/cases.json", "[\n" + cases.map((c) => JSON.stringify(c)).join(",\n") + "\n]\n");
