/* SPDX-License-Identifier: Apache-2.0 */
/* Admission of clients: send rates, addresses, shares of places, and which connection is closed for
 * a new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/http/connections.h"

/* ---- rates ---- */

static void old_bytes_leave_the_rate(void **state)
{
    (void)state;
    struct send_rate r = send_rate_start(60, 1000);
    send_rate_add(&r, 1 << 20, 1000);
    send_rate_add(&r, 1, 1030);
    assert_int_equal(send_rate_bytes(&r, 60, 1030), (1 << 20) + 1);
    assert_int_equal(send_rate_bytes(&r, 8, 1031), 1);
    assert_int_equal(send_rate_bytes(&r, 60, 1059), (1 << 20) + 1);
    assert_int_equal(send_rate_bytes(&r, 60, 1065), 1);
    assert_int_equal(send_rate_bytes(&r, 60, 1100), 0);
    assert_int_equal(send_rate_bytes(&r, 60, 1e9), 0);
    send_rate_add(&r, 7, 1e9);
    assert_int_equal(send_rate_bytes(&r, 1, 1e9), 7);
}

/* A sender at constant speed: the bytes of a window are counted, and at most one interval more. */
static void rates_are_those_of_even_senders(void **state)
{
    (void)state;
    struct send_rate r = send_rate_start(15, 0);
    for (int second = 0; second < 500; second++) {
        send_rate_add(&r, 100, second + 0.5);
        if (second < 20) continue;
        for (int last = 1; last <= 15; last++) {
            size_t n = send_rate_bytes(&r, last, second + 0.9);
            assert_true(n >= 100u * (unsigned)last && n <= 100u * ((unsigned)last + 1));
        }
    }
}

static void senders_are_slow_only_after_a_window(void **state)
{
    (void)state;
    struct send_rate r = send_rate_start(60, 0);
    assert_false(send_rate_is_below(&r, 100, 60, 59));
    assert_true(send_rate_is_below(&r, 100, 60, 61));
    send_rate_add(&r, 6000, 61);
    assert_false(send_rate_is_below(&r, 100, 60, 61));
    assert_false(send_rate_is_below(&r, 100, 60, 115));
    assert_true(send_rate_is_below(&r, 100, 60, 130));
    for (int i = 0; i < 10; i++) /* one byte every 15 s */
        send_rate_add(&r, 1, 130 + 15 * i);
    assert_true(send_rate_is_below(&r, 1, 60, 280));
}

/* ---- addresses ---- */

static struct client_address address(const char *text)
{
    struct client_address a;
    if (!client_address_read(&a, text, strlen(text))) fail_msg("%s is not an address", text);
    return a;
}

static void addresses_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"192.0.2.1", "192.0.2.1"},        {"192.0.2.1:8080", "192.0.2.1"},
        {"2001:db8::1", "2001:db8::1"},    {"[2001:db8::1]:80", "2001:db8::1"},
        {"::ffff:192.0.2.1", "192.0.2.1"}, {"[::1]", "::1"},
    };
    static const char *const wrong[] = {"",
                                        "unknown",
                                        "_hidden",
                                        "192.0.2",
                                        "1.2.3.4.5",
                                        ":",
                                        "192.0.2.1/8",
                                        "1111111111111111111111111111111111111111111111111111"};
    char plain[INET6_ADDRSTRLEN];
    struct client_address a;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_address_write(address(cases[i].text), plain);
        assert_string_equal(plain, cases[i].plain);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(client_address_read(&a, wrong[i], strlen(wrong[i])));
}

static bool same_client(const char *a, const char *b)
{
    return client_number_equal(client_address_number(address(a)),
                               client_address_number(address(b)));
}

static void clients_are_networks_of_ipv6(void **state)
{
    (void)state;
    assert_true(same_client("192.0.2.1", "::ffff:192.0.2.1"));
    assert_false(same_client("192.0.2.1", "192.0.2.2"));
    assert_true(same_client("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
    assert_false(same_client("2001:db8:0:1::1", "2001:db8:0:2::1"));
    assert_false(same_client("::1", "127.0.0.1"));
}

static void ranges(void **state)
{
    (void)state;
    static const struct {
        const char *range, *in, *out;
    } cases[] = {
        {"10.0.0.0/8", "10.255.0.1", "11.0.0.1"},
        {"10.0.0.4/31", "10.0.0.5", "10.0.0.6"},
        {"192.0.2.1", "192.0.2.1", "192.0.2.2"},
        {"fd00::/9", "fd7f::1", "fd80::1"},
        {"::1", "::1", "::2"},
        {"0.0.0.0/0", "255.1.1.1", "2001:db8::1"},
    };
    static const char *const wrong[] = {
        "", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "fd00::/129", "proxy", "/8"};
    struct address_range r;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(address_range_read(&r, cases[i].range));
        assert_true(address_range_has(&r, address(cases[i].in)));
        assert_false(address_range_has(&r, address(cases[i].out)));
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(address_range_read(&r, wrong[i]));
}

static void proxies_are_believed_up_to_the_first_stranger(void **state)
{
    (void)state;
    struct address_range range[2];
    assert_true(address_range_read(&range[0], "10.0.0.0/8"));
    assert_true(address_range_read(&range[1], "2001:db8::/32"));
    const struct trusted_proxies proxies = {range, 2};
    static const struct {
        const char *line;
        bool plain;
        const char *client;
        bool more;
    } cases[] = {
        {"192.0.2.1", true, "192.0.2.1", false},
        {"192.0.2.9, 192.0.2.1", true, "192.0.2.1", false},
        {"192.0.2.1,10.0.0.2 , 10.0.0.3", true, "192.0.2.1", false},
        {"10.0.0.2", true, "10.0.0.2", true},
        {"192.0.2.1, unknown, 10.0.0.2", true, "10.0.0.2", false},
        {"", true, "10.0.0.1", false},
        {",", true, "10.0.0.1", false},
        {"  ,  ", true, "10.0.0.1", false},
        {"for=192.0.2.1", false, "192.0.2.1", false},
        {"For=\"[2001:db9::1]:4711\"", false, "2001:db9::1", false},
        {"for=192.0.2.1;proto=https;by=10.0.0.1, proto=http; for=\"[2001:db8::5]\"", false,
         "192.0.2.1", false},
        {"proto=http", false, "10.0.0.1", false},
        {"for=", false, "10.0.0.1", false},
        {"for=unknown, for=10.0.0.7", false, "10.0.0.7", false},
        {";;;", false, "10.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client_address a = address("10.0.0.1");
        char plain[INET6_ADDRSTRLEN];
        bool more = client_address_forwarded(&a, cases[i].line, cases[i].plain, &proxies);
        client_address_write(a, plain);
        if (strcmp(plain, cases[i].client) != 0 || more != cases[i].more)
            fail_msg("\"%s\": %s", cases[i].line, plain);
    }
}

/* ---- connections ---- */

enum { MAX = 8, MANY = 64 };

struct doors {
    struct connections all;
    struct http_connection *c[MANY];
    int client[MANY], n;
};

static struct doors open_doors(void)
{
    struct doors d = {.n = 0};
    assert_true(connections_open(&d.all, MAX, connections_room_for(MAX), NULL));
    assert_int_equal(d.all.max, MAX);
    return d;
}

/* Accepts a connection of client `number`. */
static struct http_connection *arrive(struct doors *d, unsigned number)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    struct http_connection *c = connections_add(&d->all, pair[0], 1000);
    assert_non_null(c);
    c->peer = (struct client_address){{[15] = (unsigned char)number}};
    c->client = client_address_number(c->peer);
    d->client[d->n] = pair[1];
    d->c[d->n++] = c;
    return c;
}

static void close_doors(struct doors *d)
{
    for (int i = 0; i < d->n; i++) {
        close(d->client[i]);
        close(d->c[i]->fd);
    }
    connections_close(&d->all);
}

static bool begin(struct doors *d, struct http_connection *c)
{
    connections_enter(&d->all, c, PHASE_HEADERS, 10);
    bool admitted = connections_admit(&d->all, c, c->client);
    connections_enter(&d->all, c, PHASE_BODY, 60);
    return admitted;
}

static bool run(struct doors *d, struct http_connection *c)
{
    bool admitted = begin(d, c);
    connections_enter(&d->all, c, PHASE_WORKING, 0);
    return admitted;
}

static void a_client_leaves_places_to_others(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (int i = 0; i < MAX - 1; i++)
        assert_true(run(&d, arrive(&d, 1)));
    struct http_connection *more = arrive(&d, 1);
    assert_false(run(&d, more));
    assert_true(run(&d, arrive(&d, 2)));
    assert_false(run(&d, arrive(&d, 3)));
    connections_enter(&d.all, d.c[0], PHASE_IDLE, 30); /* its request ends */
    assert_false(run(&d, more));                       /* the place is kept for other clients now */
    assert_true(run(&d, arrive(&d, 3)));
    for (int i = 1; i < MAX - 1; i++)
        assert_false(d.c[i]->cut);
    close_doors(&d);
}

/* The connection that has waited longest, of the client with the most waiting ones, is closed.
 * Connections with a running request never are. */
static void newcomers_replace_the_longest_waiting(void **state)
{
    (void)state;
    struct doors d = open_doors();
    struct http_connection *runs = arrive(&d, 2), *kept = arrive(&d, 1);
    assert_true(run(&d, runs));
    for (int i = 0; i < MAX - 2; i++)
        arrive(&d, 2);
    for (int i = 0; i < MAX; i++)
        assert_false(d.c[i]->cut);
    for (int i = 0; i < 5; i++) {
        arrive(&d, 1 + (unsigned)i % 2);
        assert_true(d.c[2 + i]->cut);
        assert_false(d.c[2 + i + 1]->cut);
    }
    assert_false(runs->cut);
    assert_false(kept->cut);
    close_doors(&d);
}

static void spare_places_when_all_run(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (unsigned i = 0; i < MAX; i++)
        assert_true(run(&d, arrive(&d, i)));
    for (unsigned i = 0; i < EY_SPARE_CONNECTIONS; i++)
        assert_false(arrive(&d, 9)->cut);
    for (int i = 0; i < MAX; i++)
        assert_false(d.c[i]->cut);
    close_doors(&d);
}

/* Shifts the connection's times into the past. */
static void age(struct http_connection *c, double seconds)
{
    c->phase_since -= seconds;
    c->rate.since -= seconds;
    c->deadline -= seconds;
}

static void slow_bodies_lose_their_places(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (int i = 0; i < MAX - 1; i++)
        assert_true(begin(&d, arrive(&d, 1)));
    assert_false(begin(&d, arrive(&d, 1))); /* they may still be fast */
    for (int i = 0; i < 3; i++)
        age(d.c[i], 10);
    connections_progress(&d.all, d.c[0], 1 << 20, 30);
    connections_hold_up(&d.all, d.c[1], true);
    assert_true(begin(&d, arrive(&d, 1)));
    for (int i = 0; i < MAX; i++)
        assert_true(d.c[i]->cut == (i == 2));
    char said[2048] = "";
    assert_true(recv(d.client[2], said, sizeof(said) - 1, 0) > 0);
    assert_memory_equal(said, "HTTP/1.1 408 ", 13);
    assert_non_null(strstr(said, "--max-connections"));
    assert_true(connections_told(&d.all, d.c[2]));
    close_doors(&d);
}

/* If a client far above its share would not get the place, another client's slow body is not cut.
 */
static void slow_bodies_are_not_cut_in_vain(void **state)
{
    (void)state;
    enum { PLACES = 20, GREEDY = 17 };
    struct doors d = {.n = 0};
    assert_true(connections_open(&d.all, PLACES, connections_room_for(PLACES), NULL));
    for (int i = 0; i < GREEDY; i++)
        assert_true(run(&d, arrive(&d, 1)));
    struct http_connection *slow = arrive(&d, 2);
    assert_true(begin(&d, slow));
    assert_true(run(&d, arrive(&d, 3)));
    age(slow, 10);
    assert_false(run(&d, arrive(&d, 1)));
    assert_false(slow->cut);
    close_doors(&d);
}

static void awaited_memory_ends_the_largest_pause(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (unsigned i = 0; i < 4; i++) {
        assert_true(begin(&d, arrive(&d, i)));
        connections_progress(&d.all, d.c[i], 1000 * (i + 1), 30);
    }
    for (int i = 0; i < 3; i++)
        age(d.c[i], 20);
    connections_sweep(&d.all, false);
    for (int i = 0; i < 4; i++)
        assert_false(d.c[i]->cut);
    connections_sweep(&d.all, true);
    for (int i = 0; i < 4; i++)
        assert_true(d.c[i]->cut == (i == 2));
    close_doors(&d);
}

/* On a busy machine the server may not have read bytes that a client has sent. */
static void unread_bytes_are_no_pause(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (unsigned i = 0; i < 2; i++) {
        assert_true(begin(&d, arrive(&d, i)));
        connections_progress(&d.all, d.c[i], 1000, 30);
        age(d.c[i], 20);
    }
    assert_int_equal(write(d.client[0], "{", 1), 1);
    for (int i = 0; i < 2; i++)
        connections_sweep(&d.all, true);
    assert_false(d.c[0]->cut);
    assert_true(d.c[1]->cut);
    close_doors(&d);
}

/* Without waiting connections, a body has 60 s, then must average 16 KiB/s. */
static void slow_bodies_end_in_time(void **state)
{
    (void)state;
    struct doors d = open_doors();
    for (int i = 0; i < 3; i++) {
        assert_true(begin(&d, arrive(&d, 1)));
        connections_progress(&d.all, d.c[i], 50 << 20, 1000);
    }
    age(d.c[0], 50);
    age(d.c[1], 130);
    age(d.c[2], 130);
    connections_progress(&d.all, d.c[2], 52 << 20, 1000);
    connections_sweep(&d.all, false);
    for (int i = 0; i < 3; i++)
        assert_true(d.c[i]->cut == (i == 1));
    close_doors(&d);
}

static void few_descriptors_make_fewer_places(void **state)
{
    (void)state;
    static const struct {
        int max, room, expected;
    } cases[] = {{256, 528, 256},    {256, 1000, 256}, {8, 280, 8},
                 {1024, 1296, 1024}, {256, 32, 16},    {256, 8, 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct connections all;
        assert_true(connections_open(&all, cases[i].max, cases[i].room, NULL));
        assert_int_equal(all.max, cases[i].expected);
        assert_true(all.n_slots <= cases[i].room && all.n_slots > all.max);
        connections_close(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_bytes_leave_the_rate),
        cmocka_unit_test(rates_are_those_of_even_senders),
        cmocka_unit_test(senders_are_slow_only_after_a_window),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(clients_are_networks_of_ipv6),
        cmocka_unit_test(ranges),
        cmocka_unit_test(proxies_are_believed_up_to_the_first_stranger),
        cmocka_unit_test(a_client_leaves_places_to_others),
        cmocka_unit_test(newcomers_replace_the_longest_waiting),
        cmocka_unit_test(spare_places_when_all_run),
        cmocka_unit_test(slow_bodies_lose_their_places),
        cmocka_unit_test(slow_bodies_are_not_cut_in_vain),
        cmocka_unit_test(awaited_memory_ends_the_largest_pause),
        cmocka_unit_test(unread_bytes_are_no_pause),
        cmocka_unit_test(slow_bodies_end_in_time),
        cmocka_unit_test(few_descriptors_make_fewer_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
