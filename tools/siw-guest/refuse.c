// SPDX-License-Identifier: MIT OR Apache-2.0
// refuse -s ADDRESS PORT WORDS: listens, prints what the first client says in its private data, rejects it with WORDS.
// refuse -c ADDRESS PORT WORDS: connects with WORDS; must be rejected, and prints what the server says.
// Octets are printed as they are; what cannot be printed, as dots. Waits at most a minute for each event.
#include <arpa/inet.h>
#include <ctype.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rdma_event_channel *channel;

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static struct rdma_cm_event *event(enum rdma_cm_event_type wanted)
{
    struct pollfd look = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *found;
    must(poll(&look, 1, 60000) == 1, "no event");
    must(rdma_get_cm_event(channel, &found) == 0, "rdma_get_cm_event");
    if (found->event != wanted) {
        fprintf(stderr, "%s (%d) where %s was awaited\n", rdma_event_str(found->event), found->status, rdma_event_str(wanted));
        exit(1);
    }
    return found;
}

static void show(const char *what, const struct rdma_cm_event *of)
{
    const unsigned char *octets = of->param.conn.private_data;
    printf("%s, status %d, %d octets: ", what, of->status, of->param.conn.private_data_len);
    for (int n = 0; n < of->param.conn.private_data_len; n++)
        putchar(isprint(octets[n]) ? octets[n] : '.');
    putchar('\n');
}

int main(int count, char **words)
{
    if (count != 5 || (strcmp(words[1], "-s") && strcmp(words[1], "-c"))) {
        fprintf(stderr, "refuse -s|-c ADDRESS PORT WORDS\n");
        return 2;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
    must(inet_pton(AF_INET, words[2], &address.sin_addr) == 1, words[2]);
    struct rdma_cm_id *id;
    channel = rdma_create_event_channel();
    must(channel != NULL, "rdma_create_event_channel");
    must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    if (words[1][1] == 's') {
        must(rdma_bind_addr(id, (struct sockaddr *)&address) == 0, "rdma_bind_addr");
        must(rdma_listen(id, 1) == 0, "rdma_listen");
        struct rdma_cm_event *request = event(RDMA_CM_EVENT_CONNECT_REQUEST);
        show("request", request);
        must(rdma_reject(request->id, words[4], strlen(words[4])) == 0, "rdma_reject");
        struct rdma_cm_id *client = request->id;
        rdma_ack_cm_event(request);
        rdma_destroy_id(client);
    } else {
        must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 5000) == 0, "rdma_resolve_addr");
        rdma_ack_cm_event(event(RDMA_CM_EVENT_ADDR_RESOLVED));
        must(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
        rdma_ack_cm_event(event(RDMA_CM_EVENT_ROUTE_RESOLVED));
        struct ibv_qp_init_attr queues = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
        must(rdma_create_qp(id, NULL, &queues) == 0, "rdma_create_qp");
        struct rdma_conn_param param = {.private_data = words[4], .private_data_len = strlen(words[4])};
        must(rdma_connect(id, &param) == 0, "rdma_connect");
        struct rdma_cm_event *reply = event(RDMA_CM_EVENT_REJECTED);
        show("rejected", reply);
        rdma_ack_cm_event(reply);
        rdma_destroy_qp(id);
    }
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    return 0;
}
