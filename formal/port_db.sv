// SPDX-License-Identifier: MIT OR Apache-2.0
// What must hold for the port database (requirements.md 7.0) whatever it is asked, stated for one arbitrary port `p` and one
// arbitrary local address `a`, on `port_db_tiny`: 8 ports in 4 words of 2 with both levels of the summary, 2 listeners, 2 use
// slots. The number of ports, words, groups and slots is all in which it differs from the size of the product.
//
// The ghosts below are the uses of `p` as the replies alone tell them. PDB-2: no reply grants `p` against another use. PDB-3: what
// look-ups, refusals and choices say of `p` is right for the ghosts, so when they are all gone it is as at the start.
//
// Proof by induction over K clocks (run.sh). Without STEP: from a reset of the block in any state on, nothing fails in the first
// clocks. With STEP: if nothing failed in K clocks, whatever state they began in, nothing fails in the next. LEMMAS adds what the
// induction needs to know of the inside; without it only what users see is stated.
`ifdef STEP
`define MUST(what) begin if (age == `STEP) assert (what); else assume (what); end
`else
`define MUST(what) begin assert (what); end
`endif

// Covers: PDB-1, PDB-2, PDB-3
module port_db_formal(
  input clock,
  input [3:0] op, input [1:0] addr, input [2:0] port, input [2:0] last, input [1:0] slot, input request_valid,
  input reply_ready, input lookup_valid, input answer_ready,
  input [2:0] first_in, input [2:0] last_in, input [31:0] random
);
  localparam LISTEN = 0, UNLISTEN = 1, OPEN = 2, JOIN = 3, CLOSE = 4, WAIT = 5, WAIT_END = 6, RESERVE = 7, UNRESERVE = 8;
  localparam OK = 0, IN_USE = 1, RESERVED = 2, NO_PORTS = 3, NO_SLOT = 4, INVALID = 5;

  (* anyconst *) reg [2:0] p;
  (* anyconst *) reg [1:0] a;
  always @(*) assume (p != 0 && a != 0);

`ifdef STEP
  wire reset = 0;
  reg [3:0] age = 0;
  always @(posedge clock) if (age != `STEP) age <= age + 1;
`else
  reg reset = 1;
  always @(posedge clock) reset <= 0;
`endif

  wire ready, request_ready, reply_valid, lookup_ready, answer_valid;
  wire [51:0] reply;
  wire [18:0] answer;
  port_db_tiny dut(
    .clock(clock), .reset(reset), .ready(ready),
    .first({13'd0, first_in}), .last({13'd0, last_in}), .random(random),
    .\request$data ({14'd0, slot, 13'd0, last, 13'd0, port, 30'd0, addr, op}),
    .\request$valid (request_valid), .\request$ready (request_ready),
    .\reply$data (reply), .\reply$valid (reply_valid), .\reply$ready (reply_ready),
    .\lookup$data ({13'd0, p, 30'd0, a}), .\lookup$valid (lookup_valid), .\lookup$ready (lookup_ready),
    .\answer$data (answer), .\answer$valid (answer_valid), .\answer$ready (answer_ready));
  wire [2:0] r_status = reply[2:0];
  wire [15:0] r_port = reply[18:3];
  wire [15:0] r_listener = reply[34:19];
  wire [15:0] r_user = reply[50:35];
  wire r_shared = reply[51];

  // the request that is being answered
  reg busy;
  reg [3:0] q_op;
  reg [2:0] q_port, q_last, q_first_in, q_last_in;
  reg [1:0] q_addr;
  reg [1:0] q_slot;
  wire accept = request_valid && request_ready;
  wire done = reply_valid && reply_ready;
  always @(posedge clock) begin
    if (accept) begin
      busy <= 1;
      q_op <= op; q_port <= port; q_last <= last; q_addr <= addr; q_slot <= slot;
      q_first_in <= first_in; q_last_in <= last_in;
    end else if (done) busy <= 0;
    if (reset) busy <= 0;
  end

  // the uses of p: by listeners, by active connections, by TIME-WAIT entries, by the host
  reg [1:0] l_live, l_on;
  reg [1:0] l_addr0, l_addr1;
  reg [1:0] u_live, u_on, u_waits;
  reg host;
  wire [1:0] listeners = l_live & l_on;
  wire [1:0] active = u_live & u_on & ~u_waits;
  wire [1:0] waiting = u_live & u_on & u_waits;
  wire overlap = listeners[0] && (l_addr0 == 0 || q_addr == 0 || l_addr0 == q_addr)
              || listeners[1] && (l_addr1 == 0 || q_addr == 0 || l_addr1 == q_addr);
  wire used = |listeners || |active || |waiting;
  wire asked = q_port <= p && p <= q_last;
  wire in_range = q_first_in <= p && p <= q_last_in;
  wire granted_p = r_port == {13'd0, p};
  wire slot_listens = q_slot < 2 && l_live[q_slot[0]];
  wire slot_uses = q_slot < 2 && u_live[q_slot[0]];
  wire slot_waits = u_waits[q_slot[0]];

  always @(posedge clock) if (reset) begin
    l_live <= 0;
    u_live <= 0;
    host <= 0;
  end else if (done) begin
    if (r_status == OK) case (q_op)
      LISTEN: begin
        l_live[r_listener[0]] <= 1;
        l_on[r_listener[0]] <= granted_p;
        if (r_listener[0]) l_addr1 <= q_addr; else l_addr0 <= q_addr;
      end
      UNLISTEN: l_live[q_slot[0]] <= 0;
      OPEN: begin
        u_live[r_user[0]] <= 1;
        u_on[r_user[0]] <= granted_p;
        u_waits[r_user[0]] <= 0;
      end
      JOIN: begin
        u_live[r_user[0]] <= 1;
        u_on[r_user[0]] <= l_on[q_slot[0]];
        u_waits[r_user[0]] <= 0;
      end
      CLOSE, WAIT_END: u_live[q_slot[0]] <= 0;
      WAIT: u_waits[q_slot[0]] <= 1;
      RESERVE: if (asked) host <= 1;
      UNRESERVE: if (asked) host <= 0;
    endcase
  end

  always @(posedge clock) if (!reset) begin
    `MUST(!reply_valid || busy)
    `MUST(!(busy && request_ready))
    if (reply_valid) case (r_status)
      OK: case (q_op)
        LISTEN: begin
          `MUST(r_listener < 2 && !l_live[r_listener[0]])
          `MUST(q_port == 0 || r_port == {13'd0, q_port})
          if (granted_p) begin
            `MUST(!host && !overlap)                         // PDB-2
            if (q_port == 0) `MUST(!used && in_range)        // PDB-2
          end
        end
        UNLISTEN: `MUST(slot_listens)
        OPEN: begin
          `MUST(r_user < 2 && !u_live[r_user[0]])
          `MUST(q_port == 0 || r_port == {13'd0, q_port})
          if (granted_p) begin
            `MUST(!host)                                     // PDB-2
            `MUST(r_shared == used)                          // PDB-2: else nobody compares the 4-tuples
            if (q_port == 0) `MUST(in_range && !(|listeners))
          end
          // shared without need: a free port existed
          if (q_port == 0 && r_shared && in_range) `MUST(used || host)
        end
        JOIN: begin
          `MUST(slot_listens)
          `MUST(r_user < 2 && !u_live[r_user[0]])
          `MUST(granted_p == l_on[q_slot[0]])
        end
        CLOSE, WAIT: `MUST(slot_uses && !slot_waits)
        WAIT_END: `MUST(slot_uses && slot_waits)
        RESERVE: if (asked) `MUST(!(|listeners) && !(|active))   // PDB-2
        UNRESERVE: ;
        default: `MUST(0)
      endcase
      IN_USE: begin
        `MUST(q_op == LISTEN || q_op == RESERVE)
        if (q_op == LISTEN && q_port == p) `MUST(overlap)
        if (q_op == RESERVE && granted_p) `MUST(asked && (|listeners || |active))
      end
      RESERVED: begin
        `MUST((q_op == LISTEN || q_op == OPEN) && q_port != 0)
        if (q_port == p) `MUST(host)
      end
      NO_PORTS: begin
        `MUST((q_op == LISTEN || q_op == OPEN) && q_port == 0)
        if (in_range) `MUST(host || used)                        // PDB-3
        if (in_range && q_op == OPEN) `MUST(host || |listeners)
      end
      NO_SLOT: begin
        `MUST(q_op == LISTEN || q_op == OPEN || q_op == JOIN)
        if (q_op == LISTEN) `MUST(&l_live) else `MUST(&u_live)
      end
      INVALID: begin
        `MUST(q_op != LISTEN && q_op != OPEN)
        if (q_op == UNLISTEN || q_op == JOIN) `MUST(!slot_listens)
        if (q_op == CLOSE || q_op == WAIT) `MUST(!(slot_uses && !slot_waits))
        if (q_op == WAIT_END) `MUST(!(slot_uses && slot_waits))
        if (q_op == RESERVE || q_op == UNRESERVE) `MUST(q_port == 0 || q_port > q_last)
      end
      default: `MUST(0)
    endcase
  end

  // look-ups of p: right for the ghosts when no request is in flight from their acceptance to their answer
  wire listening = answer[0];
  wire [15:0] listener = answer[16:1];
  wire hears0 = listeners[0] && (l_addr0 == 0 || l_addr0 == a);
  wire hears1 = listeners[1] && (l_addr1 == 0 || l_addr1 == a);
  reg [2:0] calm;
  always @(posedge clock)
    if (reset || busy || accept) calm <= 0;
    else if (!answer_valid || answer_ready) calm <= {calm[1:0], 1'b1};
  always @(posedge clock) if (!reset && answer_valid) begin
    if (listening) `MUST(answer[17])
    if (calm[2]) begin
      `MUST(answer[17] == used)                                  // PDB-3
      `MUST(answer[18] == host)                                  // PDB-3
      `MUST(listening == (hears0 || hears1))
      if (listening) `MUST(listener == (hears1 ? 1 : 0))
    end
    `MUST(!(hears0 && hears1))                                   // PDB-2
  end

`ifdef LEMMAS
  // ---- Lemmas: how the design keeps this. They are proved with the rest and only help the proof; run.sh ties each x_ wire to the
  // register or memory of its name.
  wire [4:0] x_state; wire [1:0] x_word; wire [2:0] x_port;
  wire x_alive, x_sweeping, x_clearing, x_rebuilding, x_writing;
  wire [1:0] x_port_bit, x_used_word, x_taken_word, x_full_word, x_full_sum, x_range_mask;
  wire x_word_full;
  wire [2:0] x_range_first, x_range_last; wire [1:0] x_top, x_live, x_free_user;
  wire [1:0] x_listening, x_free_listener;
  wire x_free_user_index, x_user_index, x_users_left, x_free_listener_index, x_listener_index;
  wire [7:0] x_used, x_taken; wire [3:0] x_full;
  wire [35:0] x_users; wire [97:0] x_listeners;
  wire [1:0] x_cam_any; wire [63:0] x_cam_addr; wire [31:0] x_cam_port;
  wire x_stage1, x_stage2, x_stage3, x_bit1, x_bit2, x_cam_found, x_cam_place;
  wire [1:0] x_a_used, x_a_taken, x_looked_used, x_looked_taken, x_cam_port_equal, x_cam_addr_equal;
  wire [83:0] x_req; wire [1:0] x_end_word;

  localparam IDLE = 0, START = 1, READ1 = 2, READ2 = 3, NAMED = 4, TEST = 5, DECIDE = 6, CHOOSE = 7, ANY = 8, ISOLATE = 9,
    CHOOSE_GO = 10, GROUP1 = 11, GROUP2 = 12, GROUP_MASK = 13, GROUP_ISOLATE = 14, GROUP_GO = 15, WORD1 = 16, WORD2 = 17,
    WORD_MASK = 18, WORD_ISOLATE = 19, WORD_GO = 20, LISTENER1 = 21, LISTENER4 = 24, USER1 = 25, USER4 = 28, WRITE = 29, SUM = 30, TOP = 31;

  // the ghosts as the reply that is waiting will leave them
  wire ok_now = reply_valid && r_status == OK;
  wire [1:0] listener_bit = 1 << r_listener[0], slot_listener_bit = 1 << q_slot[0];
  wire [1:0] user_bit = 1 << r_user[0], slot_user_bit = 1 << q_slot[0];
  wire frees = q_op == CLOSE || q_op == WAIT_END;
  wire takes = q_op == OPEN || q_op == JOIN;
  wire joins_p = q_op == OPEN ? granted_p : l_on[q_slot[0]];
  wire [1:0] n_l_live = !ok_now ? l_live : q_op == LISTEN ? l_live | listener_bit : q_op == UNLISTEN ? l_live & ~slot_listener_bit : l_live;
  wire [1:0] n_l_on = ok_now && q_op == LISTEN ? l_on & ~listener_bit | {2{granted_p}} & listener_bit : l_on;
  wire [1:0] n_l_addr0 = ok_now && q_op == LISTEN && !r_listener[0] ? q_addr : l_addr0;
  wire [1:0] n_l_addr1 = ok_now && q_op == LISTEN && r_listener[0] ? q_addr : l_addr1;
  wire [1:0] n_u_live = !ok_now ? u_live : takes ? u_live | user_bit : frees ? u_live & ~slot_user_bit : u_live;
  wire [1:0] n_u_on = ok_now && takes ? u_on & ~user_bit | {2{joins_p}} & user_bit : u_on;
  wire [1:0] n_u_waits = !ok_now ? u_waits : takes ? u_waits & ~user_bit : q_op == WAIT ? u_waits | slot_user_bit : u_waits;
  wire n_used = |(n_l_live & n_l_on) || |(n_u_live & n_u_on);
  wire n_host = ok_now && asked && q_op == RESERVE ? 1 : ok_now && asked && q_op == UNRESERVE ? 0 : host;

  wire [1:0] pw = p[2:1];
  wire [1:0] used_w = x_used[2*pw +: 2], taken_w = x_taken[2*pw +: 2];
  wire used_p = used_w[p[0]], taken_p = taken_w[p[0]];
  wire [2:0] here_even = {x_word, 1'b0}, here_odd = {x_word, 1'b1};
  wire [1:0] mask_here = {x_range_first <= here_odd && here_odd <= x_range_last, x_range_first <= here_even && here_even <= x_range_last};
  wire settled = x_state == TEST || x_state == DECIDE || x_state >= CHOOSE && x_state <= CHOOSE_GO || x_state == WORD_MASK
              || x_state == WORD_ISOLATE || x_state == WORD_GO || x_state == WRITE
              || (x_state >= LISTENER1 && x_state <= USER4 && (q_op == LISTEN || q_op == OPEN));
  genvar s, t, l, w, g;

  always @(posedge clock) if (!reset) begin
    // what is done when
    `MUST(x_alive || (x_clearing && !busy && !reply_valid && x_live == 0 && x_listening == 0 && u_live == 0 && l_live == 0 && !host))
    `MUST(!x_clearing || x_sweeping && x_writing && !x_rebuilding && x_end_word == 3)
    `MUST(!x_clearing || x_state == IDLE && x_alive || !x_alive && (x_state == READ1 || x_state == READ2 || x_state >= WRITE))
    `MUST(!x_rebuilding || x_sweeping && x_writing && x_end_word == 3 && (!busy || reply_valid))
    `MUST(!x_rebuilding || x_state == IDLE || x_state == READ1 || x_state == READ2 || x_state >= WRITE)
    `MUST(!x_sweeping || x_writing)
    `MUST(!(x_sweeping && !x_clearing && !x_rebuilding) || x_state == IDLE || busy && (q_op == RESERVE || q_op == UNRESERVE))
    `MUST(!busy || x_state != IDLE || reply_valid)
    `MUST(busy || x_state == IDLE || x_sweeping && (x_clearing || x_rebuilding) || x_state == SUM || x_state == TOP)
    `MUST(!reply_valid || x_state == IDLE || x_state == SUM || x_state == TOP || x_rebuilding)
    `MUST(!x_sweeping || x_clearing || x_rebuilding || !busy || reply_valid || x_state == READ1 || x_state == READ2 || x_state >= WRITE)
    `MUST(x_range_first != 0)
    if (busy) begin
      `MUST(x_req[3:0] == q_op && x_req[5:4] == q_addr && x_req[35:6] == 0 && x_req[51:36] == {13'd0, q_port}
        && x_req[67:52] == {13'd0, q_last} && x_req[83:68] == {14'd0, q_slot})
      if (q_op == LISTEN || q_op == OPEN) `MUST(x_state == START || x_state == READ2 || x_state == IDLE
        || !x_rebuilding && (q_first_in == 0 ? x_range_first == 1 : x_range_first == q_first_in) && x_range_last == q_last_in
        || x_rebuilding)
      if (!reply_valid) `MUST(!x_rebuilding && !x_clearing && (q_first_in == 0 ? 1 : q_first_in) == x_range_first && x_range_last == q_last_in)
    end
    // users, listeners and their memories
    if (!busy || reply_valid) begin
      `MUST(x_live == n_u_live)
      `MUST(x_listening == n_l_live)
    end else begin
      `MUST((x_live | (frees ? slot_user_bit & u_live : 2'd0)) == u_live)
      `MUST((x_listening | (q_op == UNLISTEN ? slot_listener_bit & l_live : 2'd0)) == l_live)
      if (x_state <= NAMED && !x_writing) `MUST(x_live == u_live && x_listening == l_live)
    end
    // bitmaps and summary
    if (x_alive) begin
      `MUST(used_p == n_used)
      if (!(x_sweeping && !x_clearing && !x_rebuilding && busy && !reply_valid && asked)) `MUST(taken_p == n_host)
      `MUST(!taken_p || (n_l_live & n_l_on) == 0 && (n_u_live & n_u_on & ~n_u_waits) == 0)
    end
    if (x_state == TOP) `MUST(x_full_sum == x_full[2*x_word[1] +: 2])
    if (x_state == SUM) `MUST(x_full_word == x_full[2*x_word[1] +: 2])
    if (x_state == SUM) `MUST(x_word_full == &(x_used[2*x_word +: 2] | x_taken[2*x_word +: 2] | ~mask_here))
    if (settled && !x_clearing) `MUST(x_used_word == x_used[2*x_word +: 2])
    if (settled && !x_clearing) `MUST(x_taken_word == x_taken[2*x_word +: 2])
    if (settled) `MUST(x_full_word == x_full[2*x_word[1] +: 2])
    if (settled) `MUST(x_range_mask == mask_here)
    if (x_state == GROUP_MASK) `MUST(x_full_word == x_full[2*x_word[1] +: 2])
    if (x_state == WRITE && !x_sweeping) `MUST(x_word == x_port[2:1] && x_port_bit == (2'd1 << x_port[0]) && x_port != 0)
    if (settled && x_state != WORD_MASK && x_state != WORD_ISOLATE && x_state != WORD_GO && !x_sweeping) `MUST(x_word == x_port[2:1])
    if (x_state == WRITE && !x_sweeping) `MUST(busy && !reply_valid && (q_op == LISTEN || q_op == OPEN || q_op == UNLISTEN || frees))
    // a free slot is free
    if (x_state == START || x_state >= NAMED && x_state <= WRITE) begin
      if (x_live != 3 && !(frees || !busy)) `MUST(x_free_user == (2'd1 << x_free_user_index) && !x_live[x_free_user_index])
      if (x_listening != 3 && busy && q_op == LISTEN) `MUST(x_free_listener == (2'd1 << x_free_listener_index) && !x_listening[x_free_listener_index])
    end
    if (busy && !reply_valid && x_state != START && takes) `MUST(x_live != 3)
    if (busy && !reply_valid && x_state != START && q_op == LISTEN) `MUST(x_listening != 3)
  end
  // what holds while a request is being worked on
  wire mid = busy && !reply_valid;
  wire release_ = q_op == UNLISTEN || frees;
  wire opens = q_op == LISTEN || q_op == OPEN;
  wire in_listeners = x_state >= LISTENER1 && x_state <= LISTENER4, in_users = x_state >= USER1 && x_state <= USER4;
  wire again = x_writing && x_state == READ2 || x_state == READ1;      // a word is read to be changed
  wire early = x_state == START || (x_state == READ2 && !x_writing && !r_shared) || x_state == NAMED;
  wire sharing = q_op == OPEN && r_shared && q_port == 0;              // the range is exhausted
  wire swept = x_word > pw || x_word == pw && (x_state == SUM || x_state == TOP);
  wire here_p = x_port == p, p_in = x_range_first <= p && p <= x_range_last;
  wire [2:0] on0 = x_listeners[35:33], on1 = x_listeners[84:82];
  wire [1:0] at0 = x_listeners[2:1], at1 = x_listeners[51:50];
  wire [1:0] hits = x_listening & {on1 == x_port, on0 == x_port};
  wire [1:0] overlaps = hits & {at1 == 0 || q_addr == 0 || at1 == q_addr, at0 == 0 || q_addr == 0 || at0 == q_addr};
  wire [1:0] asked_l = x_listening & {q_port <= on1 && on1 <= q_last, q_port <= on0 && on0 <= q_last};
  wire [2:0] uon0 = x_users[2:0], uon1 = x_users[20:18];
  wire [1:0] u_hits = x_live & {uon1 == x_port, uon0 == x_port};
  wire [1:0] soles = u_hits & {x_users[35], x_users[17]};
  wire [1:0] asked_u = x_live & ~{x_users[34], x_users[16]} & {q_port <= uon1 && uon1 <= q_last, q_port <= uon0 && uon0 <= q_last};
  wire [1:0] may_share = x_live & {uon1 == p, uon0 == p} & {2{p_in && !taken_p && !(|listeners)}};
  wire [1:0] before_l = x_listener_index ? 2'b01 : 2'b00, before_u = x_user_index ? 2'b01 : 2'b00;
  always @(posedge clock) if (!reset) begin
    if (x_state != IDLE && x_state != SUM && x_state != TOP && !x_clearing && !x_rebuilding) `MUST(mid)
    if (x_sweeping && !x_clearing && !x_rebuilding && x_state != IDLE) begin
      `MUST(mid && (q_op == RESERVE || q_op == UNRESERVE))
      `MUST(x_end_word == q_last[2:1] && x_word <= x_end_word && x_word >= q_port[2:1])
      if (asked && q_op == RESERVE) `MUST(taken_p == (swept || host))
      if (asked && q_op == UNRESERVE) `MUST(taken_p == (!swept && host))
      if (q_op == RESERVE) `MUST(asked_l == 0 && asked_u == 0)
    end
    if (mid) begin
      `MUST(r_status == OK && r_listener == 0 && r_user == 0 && (release_ || r_port == 0))
      `MUST(!r_shared || q_op == OPEN)
      if (sharing) begin
        `MUST(&x_top && x_state != START && !(x_state >= CHOOSE && x_state <= WORD_GO) && x_state != NAMED)
        if (!in_users) `MUST(x_live[x_user_index] && u_hits[x_user_index] && x_range_first <= x_port && x_port <= x_range_last
          && x_word == x_port[2:1])
        if (!x_users_left) `MUST(!may_share[!x_user_index] || x_state == WRITE)
        if (in_listeners || x_state == WRITE) `MUST(!here_p || !taken_p)
        if (in_listeners) `MUST((hits & before_l) == 0)
        if (x_state == WRITE) `MUST(hits == 0)
      end else `MUST(x_state != READ1 || x_writing)
      if (x_state == NAMED) `MUST(!opens)
      if (x_state == TEST || x_state == DECIDE) `MUST(opens && (sharing || !r_shared && q_port != 0 && x_port == q_port))
      if (x_state >= CHOOSE && x_state <= WORD_GO) `MUST(opens && q_port == 0 && !r_shared)
      if (x_state >= WORD1 && x_state <= WORD_GO) `MUST(!x_full[x_word])
      if (x_state >= GROUP1 && x_state <= GROUP_GO) `MUST(!x_top[x_word[1]])
      if (in_listeners) `MUST(sharing || q_op == LISTEN && q_port != 0 && !r_shared || release_ || q_op == RESERVE)
      if (in_users) `MUST(q_op == LISTEN && q_port != 0 || q_op == OPEN && r_shared || release_ || q_op == RESERVE)
      if (x_state == START) `MUST(!x_writing && !x_sweeping && !r_shared)
      if (x_writing && !x_sweeping) `MUST(release_ && (again || x_state == WRITE))
      if (early) begin
        `MUST(x_user_index == q_slot[0] && x_listener_index == q_slot[0])
        if (q_port != 0) `MUST(x_port == q_port)
        `MUST(x_word == x_port[2:1] && !x_writing && !x_sweeping)
      end
      if ((in_listeners || in_users) && opens && q_port != 0) begin
        `MUST(x_port == q_port)
        if (here_p) `MUST(used_p && !taken_p)
      end
      if (x_state == WRITE && !x_sweeping && opens) begin
        if (here_p) `MUST(!taken_p)
        if (here_p && q_op == OPEN) `MUST(used_p == r_shared)
        if (here_p && q_port == 0 && !r_shared) `MUST(!used_p)
        if (q_port == 0) `MUST(x_range_first <= x_port && x_port <= x_range_last)
        else `MUST(x_port == q_port)
        if (here_p) `MUST(soles == 0)
      end
      if (x_state != START) begin
        if (q_op == UNLISTEN || q_op == JOIN) `MUST(slot_listens)
        if (frees || q_op == WAIT) `MUST(slot_uses)
        if (q_op == RESERVE || q_op == UNRESERVE) `MUST(q_port != 0 && q_port <= q_last)
        `MUST(q_op <= UNRESERVE)
      end
      // the use that ends is dropped, then the port looked for among the others
      if (release_ && !early) begin
        `MUST(in_listeners || in_users || x_writing && (again || x_state == WRITE))
        if (frees) `MUST(slot_waits == (q_op == WAIT_END) && x_live == (u_live & ~slot_user_bit) && here_p == u_on[q_slot[0]])
        else `MUST(x_listening == (l_live & ~slot_listener_bit) && here_p == l_on[q_slot[0]])
        if (q_op == UNLISTEN) `MUST(x_live == u_live) else `MUST(x_listening == l_live)
        `MUST(x_port != 0 && x_word == x_port[2:1])
        `MUST(r_port == {13'd0, x_port})
        if (in_listeners) `MUST((hits & before_l) == 0)
        else `MUST(!here_p || hits == 0)
        if (in_users) `MUST((u_hits & before_u) == 0 && x_users_left == !x_user_index)
        if (again || x_state == WRITE) `MUST(!here_p || u_hits == 0)
      end
      if (q_op == LISTEN) begin
        if (in_listeners) `MUST((overlaps & before_l) == 0)
        if (in_users || x_state == WRITE) `MUST(!here_p || overlaps == 0)
      end
      if (q_op == RESERVE) begin
        if (in_listeners) `MUST((asked_l & before_l) == 0)
        if (in_users) `MUST(asked_l == 0 && (asked_u & before_u) == 0 && x_users_left == !x_user_index)
        if (in_listeners || in_users) `MUST(x_word == q_port[2:1])
      end
    end
  end
  // look-ups on their way
  wire [1:0] hears = {hears1, hears0}, compared = x_cam_port_equal & x_cam_addr_equal;
  wire both_on_p = (n_l_live & n_l_on) == 3;
  always @(posedge clock) if (!reset) begin
    `MUST(!(hears0 && hears1))
    `MUST(!both_on_p || n_l_addr0 != 0 && n_l_addr1 != 0 && n_l_addr0 != n_l_addr1)
    `MUST(l_live != 3 || l_on != 3 || l_addr0 != 0 && l_addr1 != 0 && l_addr0 != l_addr1)
    if (x_stage1) begin
      `MUST(x_bit1 == p[0])
      `MUST(compared == 0 || x_a_used[x_bit1])
      if (calm[0]) `MUST(x_a_used[x_bit1] == used && x_a_taken[x_bit1] == host && compared == hears)
    end
    if (x_stage2) begin
      `MUST(x_bit2 == p[0])
      `MUST(!x_cam_found || x_looked_used[x_bit2])
      if (calm[1]) `MUST(x_looked_used[x_bit2] == used && x_looked_taken[x_bit2] == host && x_cam_found == (|hears)
        && (!x_cam_found || x_cam_place == hears[1]))
    end

    `MUST(x_stage3 == answer_valid)
  end
  generate
    // words and groups, but those that the sweep of a reset or of a new range has still to bring up to date
    for (w = 0; w < 4; w = w + 1) begin : each_word
      wire [2:0] even = 2*w, odd = 2*w + 1;
      wire [1:0] mask = {x_range_first <= odd && odd <= x_range_last, x_range_first <= even && even <= x_range_last};
      wire written = x_word > w || x_word == w && (x_state == SUM || x_state == TOP) || x_state == IDLE;
      wire summed = x_word > w || x_word == w && x_state == TOP || x_state == IDLE;
      always @(posedge clock) if (!reset) begin
        if (!x_alive && written) `MUST(x_used[2*w +: 2] == 0 && x_taken[2*w +: 2] == 0)
        if ((!x_clearing && !x_rebuilding || summed) && !(x_state == SUM && x_word == w))
          `MUST(x_full[w] == &(x_used[2*w +: 2] | x_taken[2*w +: 2] | ~mask))
      end
    end
    for (g = 0; g < 2; g = g + 1) begin : each_group
      always @(posedge clock) if (!reset && !(x_state == TOP && x_word[1] == g)
          && (!x_clearing || x_state == IDLE || x_word[1] > g || x_word == 2*g + 1)) `MUST(x_top[g] == &x_full[2*g +: 2])
    end
    for (s = 0; s < 2; s = s + 1) begin : each_user
      wire [15:0] on = x_users[18*s +: 16];
      wire waits = x_users[18*s + 16], sole = x_users[18*s + 17];
      always @(posedge clock) if (!reset && x_live[s]) begin
        `MUST(on[15:3] == 0 && on[2:0] != 0)
        `MUST((on[2:0] == p) == n_u_on[s])
        `MUST(waits == n_u_waits[s])
      end
      for (t = 0; t < 2; t = t + 1) if (s != t)
        always @(posedge clock) if (!reset && x_live[s] && x_live[t] && sole) `MUST(on[2:0] != p || x_users[18*t +: 3] != p)
      for (l = 0; l < 2; l = l + 1)
        always @(posedge clock) if (!reset && x_live[s] && x_listening[l] && sole) `MUST(on[2:0] != p || x_listeners[49*l + 33 +: 3] != p)
      // an Open or Listen on a used port clears `sole` of its user before it takes the port
      always @(posedge clock) if (!reset && x_live[s] && sole && busy && !reply_valid && on[2:0] == x_port && here_p) begin
        if (x_state == WRITE) `MUST(q_op != LISTEN && q_op != OPEN)
        if (x_state >= USER1 && x_state <= USER4 && (q_op == LISTEN || q_op == OPEN && q_port != 0))
          `MUST(s >= x_user_index && x_users_left == 1 - x_user_index)
      end
    end
    for (l = 0; l < 2; l = l + 1) begin : each_listener
      wire any = x_listeners[49*l]; wire [31:0] at = x_listeners[49*l + 1 +: 32]; wire [15:0] on = x_listeners[49*l + 33 +: 16];
      always @(posedge clock) if (!reset && x_listening[l]) begin
        `MUST(on[15:3] == 0 && on[2:0] != 0 && at[31:2] == 0)
        `MUST((on[2:0] == p) == n_l_on[l])
        `MUST(at[1:0] == (l ? n_l_addr1 : n_l_addr0) && any == (at == 0))
        `MUST(x_cam_any[l] == any && x_cam_addr[32*l +: 32] == at && x_cam_port[16*l +: 16] == on)
      end
    end
  endgenerate
  always @(posedge clock) if (!reset && x_listening == 3 && x_listeners[33 +: 3] == p && x_listeners[82 +: 3] == p)
    `MUST(!x_listeners[0] && !x_listeners[49] && x_listeners[1 +: 2] != x_listeners[50 +: 2])
`endif
endmodule
