/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas, keyword by keyword, with valid and invalid texts. */
#include <string.h>

#include "constrain/constrain_fixture.h"

struct schema_case {
    const char *schema;
    const char *in[MAX_TEXTS], *out[MAX_TEXTS];
};

static const struct schema_case cases[] = {
    /* types */
    {"{\"type\": \"null\"}", {"null"}, {"", "nul", "NULL", "null ", " null", "0"}},
    {"{\"type\": \"boolean\"}", {"true", "false"}, {"True", "1", "\"true\"", "tru"}},
    {"{\"type\": \"integer\"}",
     {"0", "7", "-12", "999999999999999999"},
     {"", "-", "-0", "01", "1.0", "1e3", "+1", "1000000000000000000"}},
    {"{\"type\": \"number\"}",
     {"0", "-1.5", "3.14159", "1e5", "2E-7", "-0.5e+10", "123456789012345.123456789012345"},
     {"", ".5", "5.", "1e", "1e100", "01", "0.1234567890123456", "Infinity", "NaN", "0x1"}},
    {"{\"type\": \"string\"}",
     {"\"\"", "\"a\"", "\"two words\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
      "\"\\u00e9\\uD83D\\uDE00\"", "\"日本 é 😀\"", "\"<tool_call>\""},
     {"a", "\"", "\"a", "\"\n\"", "\"\\x\"", "\"\\u12\"", "\"\\ud83d\"", "\"\\ude00\"",
      "\"\\ud83dx\"", "\"\\u0000\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"a\" "}},
    {"{\"type\": [\"string\", \"null\"]}", {"null", "\"x\""}, {"0", "true"}},
    {"{\"type\": [\"integer\", \"number\"]}", {"1", "1.5"}, {"null"}},
    {"{\"type\": \"integer\", \"nullable\": true}", {"null", "1"}, {"\"\""}},
    /* keywords of other types, and annotations */
    {"{\"type\": \"integer\", \"minLength\": 5, \"format\": \"int32\", \"title\": \"T\", "
     "\"description\": \"d\", \"default\": 1, \"examples\": [1], \"x-order\": 1}",
     {"1"},
     {"\"12345\""}},
    {"{\"minimum\": 3}", {"3", "4.5"}, {"2", "\"3\""}},
    {"{\"pattern\": \"^a\"}", {"\"a\""}, {"1", "\"b\""}},
    {"true",
     {"1", "{}", "[]", "\"x\"", "{\"a\":[1,{\"b\":null}]}", "[1, 2,3]"},
     {"{\"a\"}", "[1,]", "[1 ,2]", "{ }", "[,1]", "[1,  2]"}},
    {"{}", {"null", "[true]"}, {"nope"}},
    /* constants */
    {"{\"const\": 5}", {"5"}, {"5.0", "55", "\"5\""}},
    {"{\"const\": null}", {"null"}, {"0"}},
    {"{\"const\": \"a\\\"b\\\\c\\n\\u00e9\"}",
     {"\"a\\\"b\\\\c\\né\""},
     {"\"a\"", "\"a\\\"b\\\\c\\n\\u00e9\""}},
    {"{\"const\": {\"a\": [1, \"x\", {}], \"b\": null}}",
     {"{\"a\":[1,\"x\",{}],\"b\":null}", "{\"a\": [1, \"x\", {}], \"b\": null}"},
     {"{}", "{\"b\":null,\"a\":[1,\"x\",{}]}", "{\"a\":[1,\"x\",{}]}"}},
    {"{\"enum\": [\"red\", \"green\", \"re\", 1, 12, null, true, [\"re\"], {\"k\": 1.50}]}",
     {"\"red\"", "\"re\"", "\"green\"", "1", "12", "null", "true", "[\"re\"]", "{\"k\":1.50}"},
     {"\"r\"", "\"gre\"", "2", "false", "[]", "\"reds\""}},
    {"{\"type\": \"string\", \"enum\": [\"a\", 1, null]}", {"\"a\""}, {"1", "null"}},
    {"{\"type\": \"integer\", \"enum\": [1.0, 1.5, 2]}", {"1.0", "2"}, {"1.5"}},
    {"{\"type\": \"integer\", \"enum\": [1e16, -2e300, 1e-7]}", {"1e16", "-2e300"}, {"1e-7"}},
    /* strings */
    {"{\"type\": \"string\", \"maxLength\": 3}",
     {"\"\"", "\"abc\"", "\"日本語\"", "\"\\n\\u00e9x\"", "\"\\ud83d\\ude00ab\"", "\"😀😀😀\""},
     {"\"abcd\"", "\"日本語x\"", "\"\\n\\n\\n\\n\""}},
    {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 2}",
     {"\"ab\"", "\"é\\\"\""},
     {"\"\"", "\"a\"", "\"abc\""}},
    {"{\"type\": \"string\", \"minLength\": 3}", {"\"abc\"", "\"a long one\""}, {"\"ab\"", "\"\""}},
    {"{\"type\": \"string\", \"maxLength\": 0}", {"\"\""}, {"\"a\""}},
    {"{\"type\": \"string\", \"maxLength\": 1000000}", {"\"a\""}, {"1"}},
    {"{\"type\": \"string\", \"pattern\": \"^[A-Z]{2}-\\\\d{3}$\"}",
     {"\"AB-123\""},
     {"\"ab-123\"", "\"AB-1234\"", "\"xAB-123\""}},
    {"{\"type\": \"string\", \"pattern\": \"foo\"}",
     {"\"foo\"", "\"a foo b\"", "\"ffoo\\n\""},
     {"\"fo\"", "\"\"", "\"f oo\""}},
    {"{\"type\": \"string\", \"pattern\": \"^a\"}", {"\"a\"", "\"abc\\\"\""}, {"\"ba\"", "\"\""}},
    {"{\"type\": \"string\", \"pattern\": \"a$\"}", {"\"a\"", "\"bca\""}, {"\"ab\"", "\"\""}},
    {"{\"type\": \"string\", \"pattern\": \"^a|b$\"}",
     {"\"ax\"", "\"xb\"", "\"a\""},
     {"\"xbx\"", "\"xa\""}},
    {"{\"type\": \"string\", \"pattern\": \"^(a|\\\"|\\\\\\\\|\\n)+$\"}",
     {"\"a\\\"\\\\\\n\""},
     {"\"b\"", "\"\"", "\"\\u000a\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[\\\\u0001-\\\\u001f]$\"}",
     {"\"\\u0001\"", "\"\\n\"", "\"\\u001f\""},
     {"\"\\u000a\"", "\" \"", "\"\""}},
    {"{\"type\": \"string\", \"pattern\": \"^[a-z]+$\", \"minLength\": 2, \"maxLength\": 4}",
     {"\"ab\"", "\"abcd\""},
     {"\"a\"", "\"abcde\"", "\"AB\""}},
    {"{\"type\": \"string\", \"pattern\": \"^(a|bcd+e)*$\", \"minLength\": 2, \"maxLength\": 6}",
     {"\"aa\"", "\"aabcde\"", "\"bcddde\"", "\"aaaaaa\""},
     {"\"a\"", "\"aaabcde\"", "\"aaab", "\"bcdddd"}},
    {"{\"type\": \"string\", \"pattern\": \"x\", \"maxLength\": 3}",
     {"\"x\"", "\"abx\"", "\"x\\n\\\"\"", "\"日日x\""},
     {"\"abc", "\"ab\"", "\"x\\n\\n\\n\""}},
    {"{\"type\": \"string\", \"format\": \"uri\", \"minLength\": 1, \"maxLength\": 2083}",
     {"\"https://a.example/x\""},
     {"\"\""}},
    {"{\"type\": \"string\", \"format\": \"date\"}",
     {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-1-01\"",
      "\"\""}},
    {"{\"type\": \"string\", \"format\": \"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.25+05:30\""},
     {"\"24:00:00Z\"", "\"12:00:00\"", "\"12:60:00Z\""}},
    {"{\"type\": \"string\", \"format\": \"date-time\"}",
     {"\"2024-01-01T00:00:00Z\""},
     {"\"2024-01-01\"", "\"2024-01-01 00:00:00Z\""}},
    {"{\"type\": \"string\", \"format\": \"uuid\"}",
     {"\"01234567-89ab-cdef-0123-456789ABCDEF\""},
     {"\"0123456789abcdef0123456789abcdef\""}},
    {"{\"type\": \"string\", \"format\": \"email\"}",
     {"\"a.b@example.org\""},
     {"\"a@b\"", "\"@b.c\"", "\"a b@c.de\""}},
    {"{\"type\": \"string\", \"format\": \"ipv4\"}",
     {"\"192.168.0.1\"", "\"255.255.255.255\""},
     {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
    {"{\"type\": \"string\", \"format\": \"ipv6\"}",
     {"\"::1\"", "\"fe80::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1::\""},
     {"\"1:2:3\"", "\":::\"", "\"g::\""}},
    {"{\"type\": \"string\", \"format\": \"uri\"}",
     {"\"https://example.org/a?b=c#d\"", "\"ftp://x\""},
     {"\"example.org\"", "\"https://\"", "\"https://a b\""}},
    {"{\"type\": \"string\", \"format\": \"hostname\"}",
     {"\"example.org\"", "\"a-b\""},
     {"\"-a\"", "\"a..b\"", "\"\""}},
    {"{\"type\": \"string\", \"format\": \"duration\"}",
     {"\"P1D\"", "\"PT15M\"", "\"P1Y2M10DT2H30M\"", "\"P2W\""},
     {"\"P\"", "\"1D\"", "\"PT\"", "\"P1DT\""}},
    {"{\"type\": \"string\", \"format\": \"uuid\", \"pattern\": "
     "\"^([0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|0{8}-.*)$\"}",
     {"\"01234567-89ab-4def-8123-456789abcdef\"", "\"00000000-0000-0000-0000-000000000000\""},
     {"\"01234567-89ab-0def-8123-456789abcdef\"", "\"01234567-89ab-4def-8123-456789ABCDEF\"",
      "\"00000000-x\""}},
    {"{\"type\": \"string\", \"format\": \"date\", \"pattern\": \"^20\", \"maxLength\": 10}",
     {"\"2024-02-29\""},
     {"\"1999-01-01\"", "\"20\""}},
    {"{\"type\": \"string\", \"format\": \"cuid2\", \"pattern\": \"^[0-9a-z]+$\"}",
     {"\"a1\""},
     {"\"A\""}},
    /* numbers */
    {"{\"type\": \"integer\", \"minimum\": -3, \"maximum\": 12}",
     {"-3", "-1", "0", "9", "10", "12"},
     {"-4", "13", "-0", "100", "-10", "1.0"}},
    {"{\"type\": \"integer\", \"exclusiveMinimum\": 5, \"exclusiveMaximum\": 8}",
     {"6", "7"},
     {"5", "8", "65"}},
    {"{\"type\": \"integer\", \"minimum\": 98, \"maximum\": 1005}",
     {"98", "99", "100", "999", "1000", "1005"},
     {"97", "9", "1006", "10000", "1010"}},
    {"{\"type\": \"integer\", \"minimum\": 0.5, \"maximum\": 2.5}", {"1", "2"}, {"0", "3"}},
    {"{\"type\": \"integer\", \"maximum\": -20}", {"-20", "-21", "-100"}, {"-19", "-2", "0", "5"}},
    {"{\"type\": \"integer\", \"minimum\": 3, \"exclusiveMinimum\": 3}", {"4", "30"}, {"3"}},
    {"{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 0, \"maximum\": 100}",
     {"0", "7", "98", "49"},
     {"1", "8", "105", "-7"}},
    {"{\"type\": \"number\", \"multipleOf\": 5}", {"0", "5", "-10", "1005"}, {"3", "5.0", "1"}},
    {"{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}",
     {"0", "1", "0.5", "0.999", "1.0", "1.000"},
     {"1.1", "-0.1", "1.001", "2", "1e0", "-0"}},
    {"{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1}",
     {"0.5", "0.001"},
     {"0", "1", "0.0", "1.0", "0.000"}},
    {"{\"type\": \"number\", \"minimum\": -1.25, \"maximum\": 10.5}",
     {"-1.25", "-1.2", "-1", "10.5", "10.49", "9.99", "0.1", "-0.75"},
     {"-1.26", "-1.3", "-2", "10.51", "10.6", "11", "100"}},
    {"{\"type\": \"number\", \"minimum\": 1e2, \"maximum\": 1.5e3}",
     {"100", "1500", "999.5"},
     {"99.9", "1500.1", "1501"}},
    {"{\"type\": \"number\", \"maximum\": 1e300}", {"5", "-7.5"}, {"1e5"}},
    /* arrays */
    {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}",
     {"[]", "[1]", "[1,2]", "[1, 2, 3]"},
     {"[1,]", "[\"a\"]", "[1  ,2]", "[", "[ ]"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 2, \"maxItems\": 3}",
     {"[1,2]", "[1,2,3]"},
     {"[]", "[1]", "[1,2,3,4]"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"minItems\": 1}",
     {"[\"a\"]", "[\"a\",\"b\"]"},
     {"[]"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 1}",
     {"[\"a\"]", "[]"},
     {"[\"a\",\"b\"]"}},
    {"{\"type\": \"array\", \"maxItems\": 0}", {"[]"}, {"[1]"}},
    {"{\"type\": \"array\"}", {"[]", "[1,\"a\",[{}]]"}, {"{}"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}, "
     "\"minItems\": 2, \"maxItems\": 2}, \"maxItems\": 2}",
     {"[]", "[[1,2]]", "[[1,2],[3,4]]"},
     {"[[1]]", "[[1,2],[3]]", "[[1,2],[3,4],[5,6]]", "[[1,2,3]]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"string\"}], "
     "\"items\": false}",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[1,\"a\",1]", "[\"a\"]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"integer\"}], \"items\": {\"type\": "
     "\"string\"}, \"minItems\": 2, \"maxItems\": 3}",
     {"[1,\"a\"]", "[1,\"a\",\"b\"]"},
     {"[1]", "[1,2]", "[1,\"a\",\"b\",\"c\"]"}},
    {"{\"type\": \"array\", \"items\": [{\"type\": \"integer\"}], \"additionalItems\": {\"type\": "
     "\"null\"}}",
     {"[1,null,null]", "[]"},
     {"[null]"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}]}", {"[1]"}, {"[1,1]"}},
    /* objects */
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "
     "\"string\"}, \"c\": {\"type\": \"boolean\"}}, \"required\": [\"b\"],"
     " \"additionalProperties\": false}",
     {"{\"b\":\"\"}", "{\"a\":1,\"b\":\"x\"}", "{\"a\": 1, \"b\": \"x\", \"c\": true}",
      "{\"b\":\"x\",\"c\":false}"},
     {"{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"b\":\"x\",}", "{\"b\":\"x\",\"d\":1}",
      "{\"b\" :\"x\"}", "{ \"b\":\"x\"}", "{\"b\":\"x\" }", "{\"b\":\"x\",\"b\":\"y\"}",
      "{\"b\":\"x\"}\n"}},
    {"{\"type\": \"object\", \"properties\": {}}", {"{}"}, {"{\"a\":1}"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {}}}", {"{}", "{\"a\":[1]}"}, {"{\"b\":1}"}},
    {"{\"type\": \"object\"}", {"{}", "{\"a\":1}", "{\"a\":{\"b\":[]}, \"c\": \"d\"}"}, {"[]"}},
    {"{\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}",
     {"{}", "{\"x\":1,\"y\": 2}"},
     {"{\"x\":\"1\"}"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"ab\": {\"type\": "
     "\"null\"}}, \"required\": [\"ab\"], \"additionalProperties\": true}",
     {"{\"a\":1,\"ab\":null}", "{\"ab\":null,\"x\":\"y\"}", "{\"ab\":null,\"abc\":1,\"b\":2}",
      "{\"ab\":null,\"\":0}", "{\"ab\":null,\"\\n\":0}"},
     {"{\"a\":1}", "{\"ab\":null,\"a\":\"x\"}", "{\"ab\":null,\"ab\":1}",
      "{\"ab\":null,\"\\u0061\":1}", "{\"x\":1,\"ab\":null}"}},
    {"{\"type\": \"object\", \"propertyNames\": {\"type\": \"string\"}, \"additionalProperties\": "
     "{\"type\": \"null\"}}",
     {"{\"a\":null}", "{}"},
     {"{\"a\":1}"}},
    {"{\"type\": \"object\", \"required\": [\"k\"]}",
     {"{\"k\":1}", "{\"k\":[],\"z\":2}"},
     {"{}", "{\"z\":2}"}},
    {"{\"properties\": {\"a\\\"b\": {\"type\": \"null\"}, \"é\": {\"type\": \"null\"}}}",
     {"{\"a\\\"b\":null,\"é\":null}"},
     {"[]", "null"}},
    {"{\"type\": [\"object\", \"null\"], \"properties\": {\"a\": {\"const\": 1}}, \"required\": "
     "[\"a\"]}",
     {"null", "{\"a\":1}"},
     {"{}"}},
    /* alternatives */
    {"{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\", \"minimum\": 5}, {\"type\": "
     "\"null\"}]}",
     {"\"a\"", "5", "null"},
     {"4", "true"}},
    {"{\"anyOf\": [{\"type\": \"integer\", \"maximum\": 3}, {\"type\": \"number\", \"minimum\": "
     "2.5}]}",
     {"1", "3", "2.5", "7.25"},
     {"2.25", "1.5"}},
    {"{\"anyOf\": [{\"const\": \"ab\"}, {\"type\": \"string\", \"pattern\": \"^a.$\"}, {\"type\": "
     "\"string\", \"maxLength\": 1}, {\"type\": \"string\", \"minLength\": 4}]}",
     {"\"ab\"", "\"ax\"", "\"z\"", "\"\"", "\"long\""},
     {"\"abc\"", "\"zz\""}},
    {"{\"anyOf\": [{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"maxItems\": 2}, "
     "{\"type\": \"array\", \"items\": {\"type\": \"number\"}, \"minItems\": 3}]}",
     {"[]", "[1,2]", "[1,2,3.5]", "[1.5,2,3]"},
     {"[1.5]", "[1.5,2]"}},
    {"{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"t\": {\"const\": \"a\"}, \"x\": "
     "{\"type\": \"integer\"}}, \"required\": [\"t\", \"x\"]},"
     " {\"type\": \"object\", \"properties\": {\"t\": {\"enum\": [\"a\", \"ab\"]}, \"y\": "
     "{\"type\": \"string\"}}, \"required\": [\"t\"]}]}",
     {"{\"t\":\"a\",\"x\":1}", "{\"t\":\"a\"}", "{\"t\":\"ab\",\"y\":\"q\"}",
      "{\"t\":\"a\",\"y\":\"\"}"},
     {"{\"t\":\"ab\",\"x\":1}", "{\"t\":\"b\"}", "{\"t\":\"a\",\"x\":\"\"}"}},
    {"{\"anyOf\": [{\"type\": \"object\"}, {\"type\": \"object\", \"properties\": {\"a\": "
     "{\"type\": \"integer\"}}, \"required\": [\"a\"]}]}",
     {"{}", "{\"a\":1}", "{\"a\":\"x\"}", "{\"b\":[{}]}"},
     {"[]"}},
    {"{\"anyOf\": [{\"enum\": [{\"a\": 1}, [1]]}, {\"type\": \"array\", \"items\": {\"type\": "
     "\"boolean\"}}]}",
     {"{\"a\":1}", "[1]", "[true,false]", "[]"},
     {"[1,true]", "{}"}},
    {"{\"oneOf\": [{\"type\": \"string\"}, {\"type\": \"integer\"}]}", {"\"a\"", "1"}, {"null"}},
    {"{\"oneOf\": [{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/b\"}], \"discriminator\": "
     "{\"propertyName\": \"k\"}, \"$defs\": {\"a\": {\"type\": \"object\","
     " \"properties\": {\"k\": {\"const\": \"a\"}}, \"required\": [\"k\"]}, \"b\": {\"type\": "
     "\"object\", \"properties\": {\"k\": {\"const\": \"b\"}, \"n\": {\"type\": \"null\"}},"
     " \"required\": [\"k\", \"n\"]}}}",
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"n\":null}"},
     {"{\"k\":\"b\"}", "{\"k\":\"c\"}"}},
    {"{\"oneOf\": [{\"const\": null}, {\"enum\": [1, 2]}, {\"$ref\": \"#/$defs/s\"}, {\"type\": "
     "[\"object\", \"boolean\"], \"properties\": {}}], \"$defs\": {\"s\": {\"type\": \"string\"}}}",
     {"null", "2", "\"\"", "{}", "true"},
     {"3", "[]"}},
    {"{\"allOf\": [{\"$ref\": \"#/$defs/x\"}], \"description\": \"d\", \"$defs\": {\"x\": "
     "{\"type\": \"integer\"}}}",
     {"4"},
     {"\"\""}},
    {"{\"anyOf\": [{\"type\": \"string\"}], \"nullable\": true}", {"null", "\"\""}, {"1"}},
    {"{\"oneOf\": [{\"type\": \"string\", \"nullable\": false}, {\"type\": \"null\"}]}",
     {"null", "\"\""},
     {"1"}},
    /* references */
    {"{\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, \"next\": "
     "{\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": \"null\"}]}}, \"required\": [\"v\", \"next\"]}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
    {"{\"$ref\": \"#/definitions/a~1b%20c\", \"definitions\": {\"a/b c\": {\"const\": 1}}}",
     {"1"},
     {"2"}},
    {"{\"$ref\": \"#/%24defs%2Fa%7E1b%7e0%7E01\", \"$defs\": {\"a/b~~1\": {\"const\": 1}}}",
     {"1"},
     {"2"}},
    {"{\"$ref\": \"#/$defs/tree\", \"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": "
     "{\"kids\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/tree\"}, \"maxItems\": 2}},"
     " \"required\": [\"kids\"]}}}",
     {"{\"kids\":[]}", "{\"kids\":[{\"kids\":[]},{\"kids\":[{\"kids\":[]}]}]}"},
     {"{}", "{\"kids\":[{}]}", "{\"kids\":[{\"kids\":[]},{\"kids\":[]},{\"kids\":[]}]}"}},
    {"{\"type\": \"array\", \"items\": {\"$ref\": \"#/properties/x\"}, \"properties\": {\"x\": "
     "{\"const\": 2}}}",
     {"[2]", "[]"},
     {"[1]"}},
    /* as written by pydantic and zod */
    {"{\"$defs\": {\"Color\": {\"enum\": [\"red\", \"green\"], \"title\": \"Color\", \"type\": "
     "\"string\"}, \"Item\": {\"properties\": {\"name\": {\"title\": \"Name\","
     " \"type\": \"string\"}, \"color\": {\"anyOf\": [{\"$ref\": \"#/$defs/Color\"}, {\"type\": "
     "\"null\"}], \"default\": null}}, \"required\": [\"name\"],"
     " \"title\": \"Item\", \"type\": \"object\"}}, \"properties\": {\"items\": {\"items\": "
     "{\"$ref\": \"#/$defs/Item\"}, \"title\": \"Items\", \"type\": \"array\"},"
     " \"score\": {\"maximum\": 1, \"minimum\": 0, \"type\": \"number\"}}, \"required\": "
     "[\"items\", \"score\"], \"title\": \"Order\", \"type\": \"object\"}",
     {"{\"items\": [{\"name\": \"x\", \"color\": \"red\"}, {\"name\": \"y\"}], \"score\": 0.75}"},
     {"{\"items\": [], \"score\": 1.5}", "{\"items\": [{}], \"score\": 1}"}},
    {"{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": \"object\", "
     "\"properties\": {\"id\": {\"type\": \"integer\", \"minimum\": -9007199254740991,"
     " \"maximum\": 9007199254740991}, \"n\": {\"type\": \"integer\", \"exclusiveMinimum\": 0, "
     "\"maximum\": 9007199254740991}, \"when\": {\"type\": \"string\","
     " \"format\": \"date-time\"}}, \"required\": [\"id\", \"n\", \"when\"], "
     "\"additionalProperties\": false}",
     {"{\"id\":-9007199254740991,\"n\":9007199254740991,\"when\":\"2024-01-01T00:00:00Z\"}"},
     {"{\"id\":9007199254740992,\"n\":1,\"when\":\"2024-01-01T00:00:00Z\"}",
      "{\"id\":0,\"n\":0,\"when\":\"2024-01-01T00:00:00Z\"}"}},
};

static void schemas_allow_what_is_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct grammar *g = schema_ok(cases[i].schema);
        check_texts(g, cases[i].schema, cases[i].in, cases[i].out);
        grammar_release(&g);
    }
}

/* A schema and a part of its error message. */
static const char *const refused[][2] = {
    {"{\"const\": NaN}", "NaN and Infinity are not JSON"},
    {"{\"enum\": [1, {\"a\": [-Infinity]}]}", "NaN and Infinity are not JSON"},
    {"", "not valid JSON"},
    {"[]", "must be an object or a boolean"},
    {"{\"type\": \"text\"}", "#/type: \"text\" is not a type"},
    {"{\"type\": []}", "the list has no types"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\", \"items\": {\"not\": "
     "{}}}}}",
     "#/properties/a/items: the keyword \"not\""},
    {"{\"patternProperties\": {}}", "\"patternProperties\""},
    {"{\"if\": {}}", "\"if\""},
    {"{\"type\": \"object\", \"minProperties\": 1}", "\"minProperties\""},
    {"{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"a\"}}", "#/propertyNames"},
    {"{\"oneOf\": [{\"type\": \"string\", \"properties\": {\"k\": {\"const\": 1}}, \"required\": "
     "[\"k\"]},"
     " {\"type\": \"string\", \"properties\": {\"k\": {\"const\": 2}}, \"required\": [\"k\"]}]}",
     "#/oneOf"},
    {"{\"oneOf\": [{\"const\": {\"a\": 1}}, {\"const\": {\"a\": 2}}]}", "#/oneOf"},
    {"{\"type\": \"array\", \"uniqueItems\": true}", "\"uniqueItems\""},
    {"{\"minLenght\": 1}", "\"minLenght\""},
    {"{\"type\": \"string\", \"format\": \"iri\"}", "#/format: the format \"iri\""},
    {"{\"type\": \"string\", \"pattern\": \"(?=a)\"}", "look-ahead"},
    {"{\"type\": \"string\", \"pattern\": \"(a\"}", "#: regular expression"},
    {"{\"type\": \"string\", \"pattern\": 1}", "#/pattern"},
    {"{\"type\": \"string\", \"minLength\": -1}", "#/minLength: -1"},
    {"{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}", "at least 3 and at most 2"},
    {"{\"type\": \"string\", \"minLength\": 3, \"pattern\": \"^a$\"}", "no text satisfies it"},
    {"{\"type\": \"string\", \"maxLength\": 35, \"format\": \"uuid\"}", "no text satisfies it"},
    {"{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}", "no text satisfies it"},
    {"{\"type\": \"integer\", \"minimum\": \"3\"}", "#/minimum"},
    {"{\"type\": \"integer\", \"minimum\": 3, \"exclusiveMinimum\": true}", "#/exclusiveMinimum"},
    {"{\"type\": \"integer\", \"exclusiveMaximum\": 1e18}", "#/exclusiveMaximum"},
    {"{\"type\": \"number\", \"multipleOf\": 0.01}", "#/multipleOf: 0.01"},
    {"{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 2}", "at least 3 and at most 2"},
    {"{\"type\": \"array\", \"prefixItems\": [{}], \"minItems\": 2}", "at least 2 and at most 1"},
    {"{\"type\": \"array\", \"prefixItems\": [{}, {\"not\": {}}]}", "#/prefixItems/1: "},
    {"{\"type\": \"array\", \"items\": [{}, {\"not\": {}}]}", "#/items/1: "},
    {"{\"type\": \"object\", \"properties\": {\"a\": {}}, \"required\": [\"b\"], "
     "\"additionalProperties\": false}",
     "#/required: \"b\""},
    {"{\"type\": \"object\", \"required\": [\"b\"], \"additionalProperties\": {\"not\": {}}}",
     "#/additionalProperties: "},
    {"{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}",
     "no text satisfies it"},
    {"false", "no text satisfies it"},
    {"{\"enum\": []}", "#/enum"},
    {"{\"type\": \"integer\", \"enum\": [\"a\"]}", "no value"},
    {"{\"const\": \"a\", \"minLength\": 1}", "\"minLength\" with \"const\""},
    {"{\"anyOf\": []}", "#/anyOf"},
    {"{\"anyOf\": [{\"type\": \"string\"}], \"properties\": {}}", "\"properties\" with \"anyOf\""},
    {"{\"allOf\": [{\"type\": \"string\"}, {\"minLength\": 1}]}", "#/allOf"},
    {"{\"oneOf\": [{\"type\": \"number\"}, {\"type\": \"integer\"}]}", "#/oneOf"},
    {"{\"oneOf\": [{\"type\": \"integer\"}, {\"const\": 1e16}]}", "#/oneOf"},
    {"{\"oneOf\": [{\"type\": \"string\"}, {\"const\": \"a\"}]}", "#/oneOf"},
    {"{\"oneOf\": [{\"$ref\": \"#/$defs/a\", \"nullable\": true}, {\"type\": \"null\"}], "
     "\"$defs\": "
     "{\"a\": {\"type\": \"string\"}}}",
     "#/oneOf"},
    {"{\"oneOf\": [{\"allOf\": [{\"type\": \"string\"}], \"nullable\": true}, {\"const\": null}]}",
     "#/oneOf"},
    {"{\"$ref\": \"#/$defs/a\"}", "\"#/$defs/a\" is not in this schema"},
    {"{\"$ref\": \"#/$defs/a%00b\", \"$defs\": {\"a\": {\"type\": \"integer\"}}}",
     "\"#/$defs/a%00b\" is not in this schema"},
    {"{\"$ref\": \"https://example.org/s\"}", "only local references"},
    {"{\"$ref\": \"#\"}", "refers to itself"},
    {"{\"$ref\": \"#/$defs/a\", \"minimum\": 1, \"$defs\": {\"a\": {\"type\": \"integer\"}}}",
     "\"minimum\" with \"$ref\""},
    {"{\"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/a\"}, {\"type\": \"null\"}]}}, "
     "\"$ref\": \"#/$defs/a\"}",
     "refers to itself"},
    {"{\"type\": \"object\", \"properties\": {\"n\": {\"$ref\": \"#\"}}, \"required\": [\"n\"]}",
     "they require each other endlessly"},
    {"{\"const\": \"a\\u0000\"}", "\\u0000"},
};

static void other_schemas_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct grammar *g = NULL;
        ey_err e = {0};
        if (grammar_of_schema(&g, refused[i][0], strlen(refused[i][0]), &e))
            fail_msg("%s is not refused", refused[i][0]);
        if (e.code != EY_BAD_REQUEST || !strstr(e.text, refused[i][1]))
            fail_msg("%s\n  says  %s\n  not   %s", refused[i][0], e.text, refused[i][1]);
    }
}

static void an_object_of_any_kind(void **state)
{
    static const char *const in[] = {"{}",
                                     "{\"a\": {\"b\": [1, -2.5e3, null, true, \"x\"]}, \"c\":\"\"}",
                                     NULL},
                             *const out[] = {"[]", "{", "1", "{}{}", NULL};
    struct grammar *g = NULL;
    ey_err e;
    (void)state;
    assert_true(grammar_of_json_object(&g, &e));
    check_texts(g, "any object", in, out);
    grammar_release(&g);
}

int run_schema_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_allow_what_is_valid),
        cmocka_unit_test(other_schemas_are_refused_by_name),
        cmocka_unit_test(an_object_of_any_kind),
    };
    return cmocka_run_group_tests_name("schemas", tests, NULL, NULL);
}
