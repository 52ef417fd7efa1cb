// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager: carries out CONNECT, ACCEPT, REJECT, DISCONNECT, ABORT, drives TCP and MPA start-up, and tells the host what came of it.
//!
//! **Interface.** `cmd` offers a command (opcodes 8 and up; what it does not know it answers -ENOSYS) and keeps it there until it is taken together
//! with its CMD_REPLY, for CONNECT when `tcp::rx` has an index. `evt`: everything that the host hears, one event offered at a time. `freed_read`: the index of
//! each connection whose FREED the host has read; the queue behind it holds one of each index. `to_*`, `from_*`, `deliver`,
//! `result`, `frame`, `fault`, `deadline`, `expired`: the neighbours, see `tcp::types` and `mpa::types`; the message types say who answers what. `listener`: made or
//! ends; the latter is answered by `listener_done` when no CONNECT_REQUEST of it can come out of `evt` any more (what arbitrates behind `evt` keeps the order).
//! `port_req` and `port_rsp`: port database, one request at a time. `addresses`: what CONNECT may use; 0 = choose the one whose subnet
//! holds the peer, else one with a gateway, else the first. `rule_query` and `rule_answer`: the set-up rules are asked before each CONNECT.
//!
//! # Phases
//! Of each input the table says: next phase, what is told or owed. `R(x)`: CONNECT_REPLY with x; `cl(x)`: CLOSE with x; `A` `F`: Abort, Free to `tcp::tx`, then
//! Freeing; `-`: ignored. "dead": RST (then F), TCP gave up (F), start-up broken, DMA fault, deadline (A). Phases of [`ConnPhase`] that the table leaves out ignore all.
//!
//! | phase | Synced | start-up frame | FIN | dead | ABORT | other |
//! |---|---|---|---|---|---|---|
//! | SynSent | Request; WaitReply | - | R(reset) A | R(x) | R(reset) A | |
//! | WaitReply | - | judged: ReplyData, or at once what Delivered says | R(reset) A, or the retry | R(x), or the retry after RST | R(reset) A | |
//! | ReplyData | - | - | kept for later | kept for later | R(reset) A | Delivered: R(0) Established, or R = 1: R(refused) Closing; Failed: R(fault) A |
//! | WaitSync | WaitRequest | as WaitRequest: it came with the ACK of the handshake, whose news `tcp::rx` tells after it | A | A/F | | |
//! | WaitRequest | - | backlog full: Reply R = 1, Lingering; RequestData, or at once Requested | A | A/F | | |
//! | RequestData | - | - | A | A/F | | Delivered: CONNECT_REQUEST, Requested; Failed: A |
//! | Requested | - | - | A, Gone | A/F, Gone | A | ACCEPT: Reply, ESTABLISHED, Established; REJECT: Reply R = 1, Lingering |
//! | Gone, GoneFreed | - | - | - | - | Freeing, Done | ACCEPT: -ECONNRESET, Freeing, Done; REJECT: 0, the same |
//! | Established | - | - | DISCONNECT, Emptying | cl(x) | cl(reset) A | DISCONNECT: Emptying; Terminated: Closing |
//! | Emptying | - | - | - | cl(x) | cl(reset) A | Drained, Terminated: Closing; Cut: cl(reset) A |
//! | Lingering | - | - | Closing | A/F | A | deadline: Closing |
//! | Closing | - | - | - | cl(x) | cl(reset) A | Closed: cl(0) F |
//! | Freeing | - | - | - | - | - | Freed: port use ends; Draining while data is delivered or the queue pair is bound; else FREED, Done; before the retry: Reopening |
//! | Reopening | - | - | - | - | R(reset), ends with the answer | Reopened: SynSent; refused, or ended meanwhile: R(reset), port use ends, FREED, Done; or A |
//! | Done | - | - | - | - | - | last event raised: Free |
//!
//! Emptying means that the send queue shall become empty, Closing that FIN was given to TCP (there are no half-closed streams, CH-20); in both CLOSE_TIMEOUT runs. Behind a Reply of ours
//! with R = 1, Lingering comes before: the peer's FIN is awaited, REFUSAL_TIMEOUT at most (0: not at all), as some initiators do not look at a Reply that has a FIN behind it. CLOSE is owed only by what was established, FREED only
//! by what the host has a handle of. A connection whose CONNECT_REQUEST was not raised when it ends, or when its listener ends (CM-22), vanishes without an event.
//!
//! # Rules
//! - One deadline a connection: CONNECT to CONNECT_REPLY (over a retry as well), SYN to complete Request, start of an orderly close to its end. An expiry that is
//!   not due, or that nobody waits for, is ignored (MPA-42).
//! - Retry (ENH-2): FIN or RST on an enhanced Request ends the connection in TCP, then `Reopen` starts it again in the same index, in revision 1, once.
//!   An end that comes before `Reopened` waits for it: only then does `tcp::tx` surely know the connection, and nothing of the first attempt follows.
//! - A Reply must have S as the Request had (ENH-19). IRD, ORD and RTR: `mpa::negotiate`. ESTABLISHED waits for the RTR, if one was agreed, or for the end (CM-10).
//! - An enhanced Reply that cannot be met (ENH-4, ENH-13), or whose private data cannot be delivered (ENH-17): the queue pair is bound for a Terminate alone, and the connection is Emptying
//!   without having been established; without such a queue pair RST. CONNECT_REPLY waits for `Unbound`, still by the deadline of CONNECT.
//! - When the start-up is over the queue pair is bound (`to_qp`); whatever ends the connection unbinds it. CLOSE waits for `Unbound`, the end of all DMA for it (CM-14), and so does
//!   the index. After a Terminate, the peer's or ours, CLOSE has -EPROTO (RDM-31); after an orderly end in the middle of an FPDU of the peer (`Torn`) -ECONNRESET (TD-2).
//! - Waiting for the host count: from a complete Request to the host's answer (CM-19). TIME-WAIT: the use slot is kept by TIME-WAIT entry until `WaitEnd`.
//! - An index is given back (Free to `tcp::rx`) after all of: `Freed`, `Unbound`, the end of its port use, `Delivered` of what was to be delivered, and, if the host has a
//!   handle, `freed_read`. So neither a late message nor private data that a late host has not copied yet can meet its next user. Generations live through a reset (CM-32).
//!
//! # Jobs
//! One engine, one job at a time, see [`ConnState`]. Order of choice: DMA faults; messages of `tcp::rx` and `start_rx` in the order in which they came (one queue of 16:
//! a frame that belongs to an index's last user was there before `Passive` or `Synced` of its next); `tcp::tx` (`Freed` ends all that can follow); the queue pair's news; deadlines;
//! `freed_read`; the end of all; listeners; owed events; commands. What is owed is a bit in the entry and one in `pending`; the host's ring can hold up commands and events only (CM-44).
//!
//! **Stalls.** A job ends when its neighbours have taken what it tells: at most one message each, two to `tcp::tx` and `tcp::rx`. `deliver` has a queue
//! of 2^C here, because the host's memory is behind it. They must take without
//! waiting for room behind `from_*`, `result`, `fault`, `expired`, or have queues there; these are emptied without the host's help. The port
//! database answers in bounded time (thousands of clocks under RESERVE).
//!
//! **Timing.** 9 clocks a job without a stall or port request, 3 more if the job before was about another connection, 3 more if its listener was another. What follows
//! is without these. CONNECT to Open 19 and the time of rules and port database, Opened to CMD_REPLY 10; Synced to Send 10; start-up
//! frame without private data to its event 13; ACCEPT to Send 8, ESTABLISHED 3 later. An event that its cause's job had no room for: up to
//! 2^C + 8 clocks after there is room. End of a listener, and each pass of the end of all, 11 x 2^C + 11. Ready 4 x 2^C clocks after reset.
//!
//! **Memory.** `entries` 2^C x 432 bits and `listeners` 2^L x 97 in words of a quarter of that ([`RowStore`]: 3 and 1 DP16KD), `generations` 2^C x 32 (never cleared), use
//! slots of TIME-WAIT 2^T x 16.
use super::conn_types::*;
use super::messages::{CommandIn, EventOut, ListenerUpdate};
use super::port_types::*;
use super::rules::{RuleAnswer, RuleQuery};
use crate::mpa::negotiate::{Negotiate, NegotiateOp};
use crate::mpa::types::*;
use crate::net::types::LocalAddress;
use crate::rdma::types::*;
use crate::stream::{BlockRam, ChanFifo, ChanSink, ChanSrc, RowStore};
use crate::tcp::types::*;
use ironwarp_abi::{EventKind, HandleKind, Opcode};
use rust_hdl::prelude::*;

/// `C`: log2 of the connections (`CN` = 2^C, `CP1` = C + 1), `L`: log2 of the listener slots, `T`: log2 of the TIME-WAIT entries (`TN` = 2^T), `D`: largest IRD and ORD.
#[derive(LogicBlock)]
pub struct Conn<const C: usize, const CP1: usize, const CN: usize, const L: usize, const T: usize, const TN: usize, const D: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub time_us: Signal<In, Bits<32>>,
    pub mpa_timeout: Signal<In, Bits<32>>,
    pub connect_timeout: Signal<In, Bits<32>>,
    pub close_timeout: Signal<In, Bits<32>>,
    pub refusal_timeout: Signal<In, Bits<32>>,
    pub addresses: [Signal<In, LocalAddress>; 4],
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub freed_read: ChanSink<Bits<16>>,
    /// Reset every connection on the wire; no command is begun and none accepted any more / all are, and TCP has forgotten them. Until `reset`.
    pub shutdown: Signal<In, Bit>,
    pub shut: Signal<Out, Bit>,
    pub listener: ChanSink<ListenerUpdate>,
    /// For one clock: the end of a listener is carried out.
    pub listener_done: Signal<Out, Bit>,
    pub to_rx: ChanSrc<CmToRx>,
    /// What `Open` opens; holds until its answer.
    pub opens: Signal<Out, Tuple>,
    pub from_rx: ChanSink<RxToCm>,
    pub to_tx: ChanSrc<CmToTx>,
    pub from_tx: ChanSink<TxToCm>,
    /// Index whose private data `mpa::start_rx` is to write to the host.
    pub deliver: ChanSrc<Bits<16>>,
    pub result: ChanSink<StartRxResult>,
    pub frame: ChanSrc<StartTxFrame>,
    /// Index whose private data could not be read.
    pub fault: ChanSink<Bits<16>>,
    pub port_req: ChanSrc<PortRequest>,
    pub port_rsp: ChanSink<PortReply>,
    /// The queue pair: what it is to do, and what comes of it.
    pub to_qp: ChanSrc<QpOrder>,
    pub from_qp: ChanSink<QpNews>,
    pub rule_query: ChanSrc<RuleQuery>,
    pub rule_answer: ChanSink<RuleAnswer>,
    pub deadline: ChanSrc<DeadlineSet>,
    pub expired: ChanSink<Bits<16>>,
    /// Indices in use.
    pub connections_live: Signal<Out, Bits<16>>,
    pub cnt_mpa_timeouts: Signal<Out, Bit>,
    pub cnt_mpa_rejects_in: Signal<Out, Bit>,
    pub cnt_mpa_rejects_out: Signal<Out, Bit>,
    pub cnt_mpa_non_peer_rejects: Signal<Out, Bit>,
    pub cnt_mpa_retries: Signal<Out, Bit>,
    pub cnt_conn_created: Signal<Out, Bit>,
    pub cnt_conn_freed: Signal<Out, Bit>,
    pub cnt_conn_established: Signal<Out, Bit>,
    pub cnt_conn_denied: Signal<Out, Bit>,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    pub cnt_cmd_unknown: Signal<Out, Bit>,
    pub cnt_stale_handles: Signal<Out, Bit>,

    // memories
    /// The entry that is worked on, and all others.
    entries: RowStore<ConnEntry, C>,
    generations: BlockRam<Bits<32>, C>,
    /// The listener of that entry, and all others.
    listeners: RowStore<ConnListener, L>,
    wait_users: RAM<Bits<16>, T>,
    wait_valid: DFF<Bits<TN>>,
    pending: DFF<Bits<CN>>,
    inbox: ChanFifo<ConnMessage, 4, 5>,
    /// Private data that waits for the DMA.
    deliveries: ChanFifo<Bits<16>, C, CP1>,
    negotiate: Negotiate<D>,
    live_count: DFF<Bits<16>>,
    /// REFUSAL_TIMEOUT is not 0.
    lingers: DFF<Bit>,

    // the job
    state: DFF<ConnState>,
    job: DFF<ConnJob>,
    idx: DFF<Bits<C>>,
    /// What ends the connection, for the jobs that do.
    cause: DFF<ConnStatus>,
    scan: DFF<Bits<C>>,
    lslot: DFF<Bits<L>>,
    g: DFF<Bits<32>>,
    due: DFF<Bit>,
    handle_ok: DFF<Bit>,
    ported: DFF<Bit>,
    give_back: DFF<Bit>,
    // CONNECT: choice of the address, and what waits for the answer of tcp::rx
    pick: DFF<Bits<3>>,
    rank: DFF<Bits<2>>,
    near: DFF<LocalAddress>,
    pick_ip: DFF<Bits<32>>,
    opening: DFF<Bit>,
    open_tuple: DFF<Tuple>,
    open_user: DFF<Bits<16>>,
    // a listener that ends
    sweeping: DFF<Bit>,
    // the end of all: a pass over all entries is under way, it met one that TCP still has, none did
    all_pass: DFF<Bit>,
    unsettled: DFF<Bit>,
    all_shut: DFF<Bit>,
    sweep_slot: DFF<Bits<16>>,
    sweep_generation: DFF<Bits<32>>,
    done_wait: DFF<Bit>,
    // what is to be told to the neighbours
    todo_frame: DFF<Bit>,
    todo_send: DFF<Bit>,
    todo_close: DFF<Bit>,
    todo_end: DFF<Bit>,
    todo_rx: DFF<Bit>,
    todo_deliver: DFF<Bit>,
    todo_deadline: DFF<Bit>,
    /// The deadline is `span` from now: the sum is made in the first clock of `Out`.
    arm: DFF<Bit>,
    span: DFF<Bits<32>>,
    todo_port: DFF<Bit>,
    todo_qp: DFF<Bit>,
    order: DFF<QpOrder>,
    // of a command, a clock after it came to rest: more private data than a frame holds, flags or an address that mean nothing
    too_long: DFF<Bit>,
    bad_flags: DFF<Bit>,
    bad_remote: DFF<Bit>,
    port_wait: DFF<Bit>,
    end_soft: DFF<Bit>,
    rx_op: DFF<CmRxOp>,
    port_op: DFF<PortOp>,
    port_slot: DFF<Bits<16>>,
    rep: DFF<PortReply>,
    frame_reg: DFF<StartTxFrame>,
    send_len: DFF<Bits<16>>,
    send_tos: DFF<Bits<8>>,
    // the event that waits for the ring
    ev: DFF<EventOut>,
    ev_valid: DFF<Bit>,
    ev_status: DFF<ConnStatus>,
    /// The queue pair was unbound in the middle of an FPDU of the peer.
    torn: DFF<Bit>,
    status_code: StatusCode,

    // combinational: what is at hand
    command: Signal<Local, CommandIn>,
    flags: Signal<Local, Bits<8>>,
    cmd_index: Signal<Local, Bits<16>>,
    local_addr: Signal<Local, Bits<32>>,
    remote_addr: Signal<Local, Bits<32>>,
    incoming: Signal<Local, ConnMessage>,
    msg: Signal<Local, ConnMessage>,
    rxm: Signal<Local, RxToCm>,
    rx_note: Signal<Local, RxCmNote>,
    res: Signal<Local, StartRxResult>,
    res_note: Signal<Local, StartRxNote>,
    got: Signal<Local, StartFrame>,
    got_flags: Signal<Local, Bits<8>>,
    got_enhanced: Signal<Local, Bit>,
    txm: Signal<Local, TxToCm>,
    news: Signal<Local, QpNews>,
    news_note: Signal<Local, QpNote>,
    tx_note: Signal<Local, TxCmNote>,
    upd: Signal<Local, ListenerUpdate>,
    rep_now: Signal<Local, PortReply>,
    ent: Signal<Local, ConnEntry>,
    ph: Signal<Local, ConnPhase>,
    tup: Signal<Local, Tuple>,
    msg_tuple: Signal<Local, Tuple>,
    ent_flags: Signal<Local, Bits<8>>,
    wait_index: Signal<Local, Bits<T>>,
    wait_known: Signal<Local, Bit>,
    idx16: Signal<Local, Bits<16>>,
    age: Signal<Local, Bits<32>>,
    g_next: Signal<Local, Bits<32>>,
    accept_limit: Signal<Local, Bits<16>>,
    half_limit: Signal<Local, Bits<16>>,
    lsel: Signal<Local, Bits<L>>,
    same_listener: Signal<Local, Bit>,
    // combinational: what is decided
    n: Signal<Local, ConnEntry>,
    ln: Signal<Local, ConnListener>,
    dead: Signal<Local, Bit>,
    dead_status: Signal<Local, ConnStatus>,
    quietly: Signal<Local, Bit>,
    forced: Signal<Local, Bit>,
    peer_left: Signal<Local, Bit>,
    owes_reply: Signal<Local, Bit>,
    conclude: Signal<Local, Bit>,
    refused: Signal<Local, Bit>,
    begin_data: Signal<Local, Bit>,
    start_close: Signal<Local, Bit>,
    empty_first: Signal<Local, Bit>,
    told_flags: Signal<Local, Bits<8>>,
    told_ird: Signal<Local, Bits<16>>,
    told_ord: Signal<Local, Bits<16>>,
    bind_crc: Signal<Local, Bit>,
    bind_first: Signal<Local, Bit>,
    bind_rtr: Signal<Local, Bit>,
    give_up: Signal<Local, Bit>,
    reply_due: Signal<Local, Bit>,
    close_owed: Signal<Local, Bit>,
    ending: Signal<Local, Bit>,
    to_gone: Signal<Local, Bit>,
    finish: Signal<Local, Bit>,
    let_go: Signal<Local, Bit>,
    answered: Signal<Local, Bit>,
    uncount: Signal<Local, Bit>,
    established: Signal<Local, Bit>,
    set_timer: Signal<Local, Bit>,
    time_out: Signal<Local, Bits<32>>,
    send: Signal<Local, Bit>,
    accept: Signal<Local, Bit>,
    reject: Signal<Local, Bit>,
    f_s: Signal<Local, Bit>,
    f_c: Signal<Local, Bit>,
    f_len: Signal<Local, Bits<16>>,
    f_tos: Signal<Local, Bits<8>>,
    f_limit: Signal<Local, Bits<16>>,
    own_flags: Signal<Local, Bits<8>>,
    sf: Signal<Local, StartFrame>,
    stf: Signal<Local, StartTxFrame>,
    req_ird_word: Signal<Local, Bits<16>>,
    req_ord_word: Signal<Local, Bits<16>>,
    all_told: Signal<Local, Bit>,
    near_rank: Signal<Local, Bits<2>>,
    on_link: Signal<Local, Bit>,
    is_cmd_pair: Signal<Local, Bit>,
    reply: Signal<Local, Bit>,
    reply_status: Signal<Local, ConnStatus>,
    ok: Signal<Local, Bit>,
    raise: Signal<Local, Bit>,
    room: Signal<Local, Bit>,
    owed: Signal<Local, Bit>,
    about_start: Signal<Local, Bit>,
    cmd_timeout: Signal<Local, Bits<32>>,
    cmd_tos: Signal<Local, Bits<8>>,
    ent_ird: Signal<Local, Bits<16>>,
    ent_ord: Signal<Local, Bits<16>>,
    ev_new: Signal<Local, EventOut>,
    ev_kind: Signal<Local, Bits<8>>,
    ev_out: Signal<Local, EventOut>,
    rx_msg: Signal<Local, CmToRx>,
    tx_msg: Signal<Local, CmToTx>,
    dl_msg: Signal<Local, DeadlineSet>,
    pr_msg: Signal<Local, PortRequest>,
    open_value: Constant<Bits<16>>,
    bit_a: Constant<Bits<16>>,
    bits_cd: Constant<Bits<16>>,
    flag_c: Constant<Bits<8>>,
    flag_r: Constant<Bits<8>>,
    flag_s: Constant<Bits<8>>,
    dscp: Constant<Bits<8>>,
    connections: Constant<Bits<16>>,
    most: Constant<Bits<8>>,
    last_index: Constant<Bits<C>>,
    op_connect: Constant<Bits<8>>,
    op_accept: Constant<Bits<8>>,
    op_reject: Constant<Bits<8>>,
    op_disconnect: Constant<Bits<8>>,
    op_abort: Constant<Bits<8>>,
    handle_connection: Constant<Bits<8>>,
    kind_cmd_reply: Constant<Bits<8>>,
    kind_freed: Constant<Bits<8>>,
    kind_request: Constant<Bits<8>>,
    kind_reply: Constant<Bits<8>>,
    kind_established: Constant<Bits<8>>,
    kind_disconnect: Constant<Bits<8>>,
    kind_close: Constant<Bits<8>>,
}

fn opcode(op: Opcode) -> Constant<Bits<8>> {
    Constant::new((op as u64).to_bits())
}

fn kind(kind: EventKind) -> Constant<Bits<8>> {
    Constant::new((kind as u64).to_bits())
}

impl<const C: usize, const CP1: usize, const CN: usize, const L: usize, const T: usize, const TN: usize, const D: usize> Default
    for Conn<C, CP1, CN, L, T, TN, D>
{
    fn default() -> Self {
        assert_eq!(1 << C, CN);
        assert_eq!(1 << T, TN);
        assert!(L <= C, "entries and listeners are cleared together");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            time_us: Default::default(),
            mpa_timeout: Default::default(),
            connect_timeout: Default::default(),
            close_timeout: Default::default(),
            refusal_timeout: Default::default(),
            addresses: Default::default(),
            cmd: Default::default(),
            evt: Default::default(),
            freed_read: Default::default(),
            shutdown: Default::default(),
            shut: Default::default(),
            listener: Default::default(),
            listener_done: Default::default(),
            to_rx: Default::default(),
            opens: Default::default(),
            from_rx: Default::default(),
            to_tx: Default::default(),
            from_tx: Default::default(),
            deliver: Default::default(),
            result: Default::default(),
            frame: Default::default(),
            fault: Default::default(),
            port_req: Default::default(),
            port_rsp: Default::default(),
            rule_query: Default::default(),
            rule_answer: Default::default(),
            deadline: Default::default(),
            expired: Default::default(),
            connections_live: Default::default(),
            cnt_mpa_timeouts: Default::default(),
            cnt_mpa_rejects_in: Default::default(),
            cnt_mpa_rejects_out: Default::default(),
            cnt_mpa_non_peer_rejects: Default::default(),
            cnt_mpa_retries: Default::default(),
            cnt_conn_created: Default::default(),
            cnt_conn_freed: Default::default(),
            cnt_conn_established: Default::default(),
            cnt_conn_denied: Default::default(),
            cnt_cmd_done: Default::default(),
            cnt_cmd_errors: Default::default(),
            cnt_cmd_unknown: Default::default(),
            cnt_stale_handles: Default::default(),
            entries: Default::default(),
            generations: Default::default(),
            listeners: Default::default(),
            wait_users: Default::default(),
            wait_valid: Default::default(),
            pending: Default::default(),
            inbox: Default::default(),
            deliveries: Default::default(),
            negotiate: Default::default(),
            live_count: Default::default(),
            lingers: Default::default(),
            state: Default::default(),
            job: Default::default(),
            idx: Default::default(),
            cause: Default::default(),
            scan: Default::default(),
            lslot: Default::default(),
            g: Default::default(),
            due: Default::default(),
            handle_ok: Default::default(),
            ported: Default::default(),
            give_back: Default::default(),
            pick: Default::default(),
            rank: Default::default(),
            near: Default::default(),
            pick_ip: Default::default(),
            opening: Default::default(),
            open_tuple: Default::default(),
            open_user: Default::default(),
            sweeping: Default::default(),
            all_pass: Default::default(),
            unsettled: Default::default(),
            all_shut: Default::default(),
            sweep_slot: Default::default(),
            sweep_generation: Default::default(),
            done_wait: Default::default(),
            todo_frame: Default::default(),
            todo_send: Default::default(),
            todo_close: Default::default(),
            todo_end: Default::default(),
            todo_rx: Default::default(),
            todo_deliver: Default::default(),
            todo_deadline: Default::default(),
            arm: Default::default(),
            span: Default::default(),
            todo_port: Default::default(),
            todo_qp: Default::default(),
            order: Default::default(),
            to_qp: Default::default(),
            from_qp: Default::default(),
            news: Default::default(),
            news_note: Default::default(),
            empty_first: Default::default(),
            told_flags: Default::default(),
            told_ird: Default::default(),
            told_ord: Default::default(),
            bind_crc: Default::default(),
            bind_first: Default::default(),
            bind_rtr: Default::default(),
            give_up: Default::default(),
            reply_due: Default::default(),
            close_owed: Default::default(),
            port_wait: Default::default(),
            end_soft: Default::default(),
            rx_op: Default::default(),
            port_op: Default::default(),
            port_slot: Default::default(),
            rep: Default::default(),
            frame_reg: Default::default(),
            send_len: Default::default(),
            send_tos: Default::default(),
            ev: Default::default(),
            ev_valid: Default::default(),
            ev_status: Default::default(),
            torn: Default::default(),
            status_code: Default::default(),
            command: Default::default(),
            flags: Default::default(),
            cmd_index: Default::default(),
            local_addr: Default::default(),
            remote_addr: Default::default(),
            incoming: Default::default(),
            msg: Default::default(),
            rxm: Default::default(),
            rx_note: Default::default(),
            res: Default::default(),
            res_note: Default::default(),
            got: Default::default(),
            got_flags: Default::default(),
            got_enhanced: Default::default(),
            txm: Default::default(),
            tx_note: Default::default(),
            upd: Default::default(),
            rep_now: Default::default(),
            ent: Default::default(),
            ph: Default::default(),
            tup: Default::default(),
            msg_tuple: Default::default(),
            ent_flags: Default::default(),
            wait_index: Default::default(),
            wait_known: Default::default(),
            idx16: Default::default(),
            age: Default::default(),
            g_next: Default::default(),
            accept_limit: Default::default(),
            half_limit: Default::default(),
            lsel: Default::default(),
            same_listener: Default::default(),
            n: Default::default(),
            ln: Default::default(),
            dead: Default::default(),
            dead_status: Default::default(),
            quietly: Default::default(),
            forced: Default::default(),
            peer_left: Default::default(),
            owes_reply: Default::default(),
            conclude: Default::default(),
            refused: Default::default(),
            begin_data: Default::default(),
            start_close: Default::default(),
            ending: Default::default(),
            to_gone: Default::default(),
            finish: Default::default(),
            let_go: Default::default(),
            answered: Default::default(),
            uncount: Default::default(),
            established: Default::default(),
            set_timer: Default::default(),
            time_out: Default::default(),
            send: Default::default(),
            accept: Default::default(),
            reject: Default::default(),
            f_s: Default::default(),
            f_c: Default::default(),
            f_len: Default::default(),
            f_tos: Default::default(),
            f_limit: Default::default(),
            too_long: Default::default(),
            bad_flags: Default::default(),
            bad_remote: Default::default(),
            own_flags: Default::default(),
            sf: Default::default(),
            stf: Default::default(),
            req_ird_word: Default::default(),
            req_ord_word: Default::default(),
            all_told: Default::default(),
            near_rank: Default::default(),
            on_link: Default::default(),
            is_cmd_pair: Default::default(),
            reply: Default::default(),
            reply_status: Default::default(),
            ok: Default::default(),
            raise: Default::default(),
            room: Default::default(),
            owed: Default::default(),
            about_start: Default::default(),
            cmd_timeout: Default::default(),
            cmd_tos: Default::default(),
            ent_ird: Default::default(),
            ent_ord: Default::default(),
            ev_new: Default::default(),
            ev_kind: Default::default(),
            ev_out: Default::default(),
            rx_msg: Default::default(),
            tx_msg: Default::default(),
            dl_msg: Default::default(),
            pr_msg: Default::default(),
            open_value: Constant::new(0x3fff_u64.to_bits()),
            bit_a: Constant::new(0x8000_u64.to_bits()),
            bits_cd: Constant::new(0xc000_u64.to_bits()),
            flag_c: Constant::new(0x40_u64.to_bits()),
            flag_r: Constant::new(0x20_u64.to_bits()),
            flag_s: Constant::new(0x10_u64.to_bits()),
            dscp: Constant::new(0xfc_u64.to_bits()),
            connections: Constant::new((CN as u64).to_bits()),
            most: Constant::new((D as u64).to_bits()),
            last_index: Constant::new((CN as u64 - 1).to_bits()),
            op_connect: opcode(Opcode::Connect),
            op_accept: opcode(Opcode::Accept),
            op_reject: opcode(Opcode::Reject),
            op_disconnect: opcode(Opcode::Disconnect),
            op_abort: opcode(Opcode::Abort),
            handle_connection: Constant::new((HandleKind::Connection as u64).to_bits()),
            kind_cmd_reply: kind(EventKind::CmdReply),
            kind_freed: kind(EventKind::Freed),
            kind_request: kind(EventKind::ConnectRequest),
            kind_reply: kind(EventKind::ConnectReply),
            kind_established: kind(EventKind::Established),
            kind_disconnect: kind(EventKind::Disconnect),
            kind_close: kind(EventKind::Close),
        }
    }
}

impl<const C: usize, const CP1: usize, const CN: usize, const L: usize, const T: usize, const TN: usize, const D: usize> Logic
    for Conn<C, CP1, CN, L, T, TN, D>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, wait_valid, pending, live_count, lingers, state, job, idx, cause, scan, lslot, g, due, handle_ok);
        dff_setup!(
            self, clock, too_long, bad_flags, bad_remote, todo_qp, order, ported, give_back, pick, rank, near, pick_ip, opening,
            open_tuple, open_user
        );
        dff_setup!(self, clock, sweeping, all_pass, unsettled, all_shut, sweep_slot, sweep_generation, done_wait);
        dff_setup!(
            self,
            clock,
            todo_frame,
            todo_send,
            todo_close,
            todo_end,
            todo_rx,
            todo_deliver,
            todo_deadline,
            arm,
            span,
            todo_port,
            port_wait
        );
        dff_setup!(self, clock, end_soft, rx_op, port_op, port_slot, rep, frame_reg, send_len, send_tos, ev, ev_valid, ev_status, torn);
        clock!(self, clock, entries, listeners, inbox, deliveries, negotiate);
        self.inbox.reset.next = self.reset.val();
        self.deliveries.reset.next = self.reset.val();
        self.entries.reset.next = self.reset.val();
        self.generations.read_clock.next = self.clock.val();
        self.generations.write_clock.next = self.clock.val();
        self.listeners.reset.next = self.reset.val();
        self.wait_users.read_clock.next = self.clock.val();
        self.wait_users.write_clock.next = self.clock.val();

        // ---- what is at hand
        self.incoming.next.start = !self.from_rx.valid.val();
        self.incoming.next.rx = self.from_rx.data.val();
        self.incoming.next.result = self.result.data.val();
        self.inbox.inp.data.next = self.incoming.val();
        self.inbox.inp.valid.next = self.from_rx.valid.val() | self.result.valid.val();
        self.from_rx.ready.next = self.inbox.inp.ready.val();
        self.result.ready.next = self.inbox.inp.ready.val() & !self.from_rx.valid.val();
        self.msg.next = self.inbox.out.data.val();
        self.rxm.next = self.msg.val().rx;
        self.rx_note.next = self.rxm.val().note;
        self.msg_tuple.next = self.rxm.val().tuple;
        self.res.next = self.msg.val().result;
        self.res_note.next = self.res.val().note;
        self.got.next = self.res.val().frame;
        self.got_flags.next = self.got.val().flags;
        self.got_enhanced.next = self.got_flags.val().get_bit(4) & (self.got.val().rev == 2);
        self.txm.next = self.from_tx.data.val();
        self.tx_note.next = self.txm.val().note;
        self.upd.next = self.listener.data.val();
        self.command.next = self.cmd.data.val();
        self.flags.next = self.command.val().flags;
        self.cmd_index.next = self.command.val().index;
        self.local_addr.next = self.command.val().local_addr;
        self.remote_addr.next = self.command.val().remote_addr;
        self.rep_now.next = self.rep.q.val();
        self.ent.next = self.entries.row.val();
        self.ph.next = self.ent.val().phase;
        self.tup.next = self.ent.val().tuple;
        self.ent_flags.next = self.ent.val().flags;
        self.wait_index.next = bit_cast::<T, 16>(self.rxm.val().wait);
        self.wait_known.next = self.wait_valid.q.val().get_bit(self.wait_index.val().index());
        self.idx16.next = bit_cast::<16, C>(self.idx.q.val());
        self.cmd_timeout.next = self.command.val().timeout_us;
        self.cmd_tos.next = self.command.val().tos;
        self.ent_ird.next = self.ent.val().ird_word;
        self.ent_ord.next = self.ent.val().ord_word;
        self.age.next = self.time_us.val() - self.ent.val().at;
        self.g_next.next = self.g.q.val() + 1;
        self.accept_limit.next = self.upd.val().backlog_accept;
        if self.upd.val().backlog_accept == 0 {
            self.accept_limit.next = 256.into();
        }
        self.half_limit.next = self.upd.val().backlog_half_open;
        if self.upd.val().backlog_half_open == 0 {
            self.half_limit.next = 256.into();
        }
        self.same_listener.next =
            self.listeners.row.val().live & (self.listeners.row.val().generation == self.ent.val().listener_generation);
        self.lsel.next = bit_cast::<L, 8>(self.ent.val().listener);
        if self.job.q.val() == ConnJob::Passive {
            self.lsel.next = bit_cast::<L, 16>(self.rxm.val().listener);
        } else if self.job.q.val() == ConnJob::Listener {
            self.lsel.next = bit_cast::<L, 16>(self.upd.val().slot);
        }

        // ---- negotiation: its inputs stand from the state `Listener` on, its outputs count in `Act`
        self.negotiate.op.next = NegotiateOp::Answer;
        self.negotiate.peer_to_peer.next = false;
        self.negotiate.own_ird.next = self.command.val().ird;
        self.negotiate.own_ord.next = self.command.val().ord;
        self.negotiate.peer_ird_word.next = self.open_value.val();
        self.negotiate.peer_ord_word.next = self.open_value.val();
        if self.job.q.val() == ConnJob::Opened {
            self.negotiate.op.next = NegotiateOp::Request;
            self.negotiate.peer_to_peer.next = self.flags.val().get_bit(1);
        } else if self.job.q.val() == ConnJob::Frame {
            if self.got_enhanced.val() {
                self.negotiate.peer_ird_word.next = self.got.val().ird_word;
                self.negotiate.peer_ord_word.next = self.got.val().ord_word;
            }
            if self.ent.val().passive {
                // for a Reply of our own that rejects
                self.negotiate.own_ird.next = 0.into();
                self.negotiate.own_ord.next = 0.into();
            } else {
                self.negotiate.op.next = NegotiateOp::Judge;
                self.negotiate.peer_to_peer.next = self.ent.val().peer_to_peer;
                self.negotiate.own_ird.next = bit_cast::<16, 8>(self.ent.val().own_ird);
                self.negotiate.own_ord.next = bit_cast::<16, 8>(self.ent.val().own_ord);
            }
        } else if self.ent.val().peer_enhanced {
            self.negotiate.peer_ird_word.next = self.ent.val().ird_word;
            self.negotiate.peer_ord_word.next = self.ent.val().ord_word;
        }

        // ---- the queue pair that is bound when the start-up is over: what both frames say of it
        self.told_flags.next = self.ent_flags.val();
        self.told_ird.next = self.ent.val().ird_word;
        self.told_ord.next = self.ent.val().ord_word;
        if self.job.q.val() == ConnJob::Frame {
            self.told_flags.next = self.got_flags.val();
            self.told_ird.next = self.got.val().ird_word;
            self.told_ord.next = self.got.val().ord_word;
        }
        self.bind_rtr.next = self.ent.val().peer_to_peer;
        self.bind_crc.next = !self.ent.val().no_crc | self.told_flags.val().get_bit(6);
        if self.ent.val().passive {
            self.bind_rtr.next = self.ent.val().peer_enhanced & self.told_ird.val().get_bit(15);
            self.bind_crc.next = !self.flags.val().get_bit(3) | self.told_flags.val().get_bit(6);
        }

        // ---- defaults
        self.lingers.d.next = self.refusal_timeout.val() != 0;
        self.ready.next = self.state.q.val() != ConnState::Clear;
        self.inbox.out.ready.next = false;
        self.from_tx.ready.next = false;
        self.news.next = self.from_qp.data.val();
        self.news_note.next = self.news.val().note;
        self.from_qp.ready.next = false;
        self.fault.ready.next = false;
        self.expired.ready.next = false;
        self.freed_read.ready.next = false;
        self.listener.ready.next = false;
        self.cmd.ready.next = false;
        self.listener_done.next = false;
        self.entries.index.next = self.idx.q.val();
        self.entries.open.next = false;
        self.entries.set.next = false;
        self.entries.erase.next = false;
        self.entries.clear.next = false;
        self.generations.read_address.next = self.idx.q.val();
        self.generations.write_address.next = self.idx.q.val();
        self.generations.write_data.next = self.g_next.val();
        self.generations.write_enable.next = false;
        self.listeners.index.next = self.lsel.val();
        self.listeners.open.next = false;
        self.listeners.set.next = false;
        self.listeners.erase.next = false;
        self.listeners.clear.next = false;
        self.wait_users.read_address.next = self.wait_index.val();
        self.wait_users.write_address.next = self.wait_index.val();
        self.wait_users.write_data.next = bit_cast::<16, 12>(self.ent.val().user);
        self.wait_users.write_enable.next = false;
        self.shut.next = self.all_shut.q.val();
        self.connections_live.next = self.live_count.q.val();
        self.cnt_mpa_timeouts.next = false;
        self.cnt_mpa_rejects_in.next = false;
        self.cnt_mpa_rejects_out.next = false;
        self.cnt_mpa_non_peer_rejects.next = false;
        self.cnt_mpa_retries.next = false;
        self.cnt_conn_created.next = false;
        self.cnt_conn_freed.next = false;
        self.cnt_conn_established.next = false;
        self.cnt_conn_denied.next = false;
        self.rule_query.valid.next = false;
        self.rule_query.data.next.outbound = true;
        self.rule_query.data.next.peer = self.remote_addr.val();
        self.rule_query.data.next.port = self.command.val().remote_port;
        self.rule_answer.ready.next = false;
        self.cnt_cmd_done.next = false;
        self.cnt_cmd_errors.next = false;
        self.cnt_cmd_unknown.next = false;
        self.cnt_stale_handles.next = false;
        self.n.next = self.entries.row.val();
        self.ln.next = self.listeners.row.val();
        self.dead.next = false;
        self.dead_status.next = self.cause.q.val();
        self.quietly.next = false;
        self.forced.next = false;
        self.peer_left.next = false;
        self.owes_reply.next = false;
        self.conclude.next = false;
        self.refused.next = self.ent_flags.val().get_bit(5);
        self.begin_data.next = false;
        self.give_up.next = false;
        self.start_close.next = false;
        self.empty_first.next = false;
        self.ending.next = false;
        self.to_gone.next = false;
        self.finish.next = false;
        self.let_go.next = false;
        self.answered.next = false;
        self.uncount.next = false;
        self.established.next = false;
        self.set_timer.next = false;
        self.time_out.next = self.close_timeout.val();
        self.send.next = false;
        self.accept.next = false;
        self.reject.next = false;
        self.reply.next = false;
        self.reply_status.next = ConnStatus::Ok;
        self.raise.next = false;
        self.room.next = !self.ev_valid.q.val() & !self.opening.q.val() & !self.done_wait.q.val();
        self.ev_kind.next = self.kind_cmd_reply.val();
        // ESTABLISHED waits for the RTR, CLOSE for the end of all DMA (CM-10, CM-14)
        self.reply_due.next = self.ent.val().owe_reply & !self.ent.val().await_rtr & (self.ent.val().established | !self.ent.val().bound);
        self.close_owed.next = self.ent.val().owe_close & !self.ent.val().bound;
        self.owed.next = self.ent.val().owe_request
            | self.reply_due.val()
            | self.ent.val().owe_disconnect
            | self.close_owed.val()
            | self.ent.val().owe_freed;

        // ---- what is offered
        self.evt.valid.next = self.ev_valid.q.val();
        if self.ev_valid.q.val() & self.evt.ready.val() {
            self.ev_valid.d.next = false;
        }
        if self.done_wait.q.val() & !self.ev_valid.q.val() {
            self.listener_done.next = true;
            self.done_wait.d.next = false;
        }
        self.frame.valid.next = self.todo_frame.q.val();
        self.frame.data.next = self.frame_reg.q.val();
        if self.frame.ready.val() {
            self.todo_frame.d.next = false;
        }
        // tcp::tx hears of the frame only when mpa::start_tx has it; then of what is to follow it
        self.bind_first.next = self.todo_qp.q.val() & (self.order.q.val().op == QpOp::Bind);
        self.to_tx.valid.next = (self.todo_send.q.val() & !self.todo_frame.q.val() & !self.bind_first.val())
            | (!self.todo_send.q.val() & (self.todo_close.q.val() | self.todo_end.q.val()));
        self.tx_msg.next.op = CmTxOp::Abort;
        if self.todo_send.q.val() {
            self.tx_msg.next.op = CmTxOp::Send;
        } else if self.todo_close.q.val() {
            self.tx_msg.next.op = CmTxOp::Close;
        } else if self.end_soft.q.val() {
            self.tx_msg.next.op = CmTxOp::Free;
        }
        self.tx_msg.next.index = self.idx16.val();
        self.tx_msg.next.len = self.send_len.q.val();
        self.tx_msg.next.tos = self.send_tos.q.val();
        self.to_tx.data.next = self.tx_msg.val();
        if self.to_tx.ready.val() {
            if self.todo_send.q.val() {
                if !self.todo_frame.q.val() & !self.bind_first.val() {
                    self.todo_send.d.next = false;
                }
            } else if self.todo_close.q.val() {
                self.todo_close.d.next = false;
            } else {
                self.todo_end.d.next = false;
            }
        }
        self.opens.next = self.open_tuple.q.val();
        // payload in full operation is let through, and the Reply sent, when the queue pair is bound
        self.to_rx.valid.next = self.todo_rx.q.val() & !self.bind_first.val();
        self.rx_msg.next.op = self.rx_op.q.val();
        self.rx_msg.next.index = self.idx16.val();
        if self.rx_op.q.val() == CmRxOp::Limit {
            self.rx_msg.next.index = bit_cast::<16, L>(self.lslot.q.val());
        }
        self.rx_msg.next.limit = 0.into();
        if self.upd.val().live {
            self.rx_msg.next.limit = self.half_limit.val();
        }
        self.to_rx.data.next = self.rx_msg.val();
        if self.to_rx.ready.val() & !self.bind_first.val() {
            self.todo_rx.d.next = false;
        }
        self.deliveries.inp.valid.next = self.todo_deliver.q.val();
        self.deliveries.inp.data.next = self.idx16.val();
        if self.deliveries.inp.ready.val() {
            self.todo_deliver.d.next = false;
        }
        ChanSrc::<Bits<16>>::link(&mut self.deliver, &mut self.deliveries.out);
        self.deadline.valid.next = self.todo_deadline.q.val() & !self.arm.q.val();
        self.dl_msg.next.index = self.idx16.val();
        self.dl_msg.next.on = self.ent.val().timer;
        self.dl_msg.next.at = self.ent.val().at;
        self.deadline.data.next = self.dl_msg.val();
        if self.deadline.ready.val() & !self.arm.q.val() {
            self.todo_deadline.d.next = false;
        }
        self.port_req.valid.next = self.todo_port.q.val();
        self.pr_msg.next.op = self.port_op.q.val();
        self.pr_msg.next.addr = self.pick_ip.q.val();
        self.pr_msg.next.port = self.command.val().local_port;
        self.pr_msg.next.last = 0.into();
        self.pr_msg.next.slot = self.port_slot.q.val();
        self.port_req.data.next = self.pr_msg.val();
        if self.todo_port.q.val() & self.port_req.ready.val() {
            self.todo_port.d.next = false;
            self.port_wait.d.next = true;
        }
        self.port_rsp.ready.next = self.port_wait.q.val();
        if self.port_wait.q.val() & self.port_rsp.valid.val() {
            self.port_wait.d.next = false;
            self.rep.d.next = self.port_rsp.data.val();
        }
        self.to_qp.valid.next = self.todo_qp.q.val();
        self.to_qp.data.next = self.order.q.val();
        if self.to_qp.ready.val() {
            self.todo_qp.d.next = false;
        }
        self.all_told.next = !self.todo_frame.q.val()
            & !self.todo_qp.q.val()
            & !self.todo_send.q.val()
            & !self.todo_close.q.val()
            & !self.todo_end.q.val()
            & !self.todo_rx.q.val()
            & !self.todo_deliver.q.val()
            & !self.todo_deadline.q.val()
            & !self.todo_port.q.val()
            & !self.port_wait.q.val();

        // ---- commands: what can be said of their form
        self.f_s.next = self.ent.val().peer_enhanced;
        if self.job.q.val() == ConnJob::Frame {
            self.f_s.next = self.got_enhanced.val();
        }
        self.bad_flags.d.next = self.flags.val().get_bits::<7>(0) != 0;
        self.f_limit.next = 512.into();
        if self.f_s.val() {
            self.f_limit.next = 508.into();
        }
        if self.command.val().opcode == self.op_connect.val() {
            // RETRY and PEER_TO_PEER need ENHANCED and exclude each other; bits 4 to 6 mean nothing
            self.bad_flags.d.next = (self.flags.val().get_bits::<3>(4) != 0)
                | ((self.flags.val().get_bits::<2>(1) != 0) & !self.flags.val().get_bit(0))
                | (self.flags.val().get_bit(1) & self.flags.val().get_bit(2));
            self.f_limit.next = 512.into();
            if self.flags.val().get_bit(0) {
                self.f_limit.next = 508.into();
            }
        } else if self.command.val().opcode == self.op_accept.val() {
            self.bad_flags.d.next = (self.flags.val().get_bits::<3>(0) != 0) | (self.flags.val().get_bits::<2>(5) != 0);
        }
        self.too_long.d.next = self.command.val().data_len > self.f_limit.val();
        self.bad_remote.d.next = (self.remote_addr.val().get_bits::<8>(24) == 0)
            | (self.remote_addr.val().get_bits::<8>(24) == 127)
            | (self.remote_addr.val().get_bits::<8>(24) >= 224)
            | (self.command.val().remote_port == 0);
        self.on_link.next = ((self.remote_addr.val() ^ self.near.q.val().ip) & self.near.q.val().mask) == 0;
        self.near_rank.next = 1.into();
        if self.local_addr.val() != 0 {
            self.near_rank.next = 0.into();
            if self.local_addr.val() == self.near.q.val().ip {
                self.near_rank.next = 3.into();
            }
        } else if self.on_link.val() {
            self.near_rank.next = 3.into();
        } else if self.near.q.val().gateway != 0 {
            self.near_rank.next = 2.into();
        }
        self.is_cmd_pair.next =
            (self.pick_ip.q.val() == self.remote_addr.val()) & (self.rep_now.val().port == self.command.val().remote_port);

        // ---- the start-up frame that would be sent: our Request after `Synced`, else a Reply
        self.req_ird_word.next = bit_cast::<16, 8>(self.ent.val().own_ird);
        if self.ent.val().open_ird {
            self.req_ird_word.next = self.open_value.val();
        }
        self.req_ord_word.next = bit_cast::<16, 8>(self.ent.val().own_ord);
        if self.ent.val().open_ord {
            self.req_ord_word.next = self.open_value.val();
        }
        self.f_c.next = !self.flags.val().get_bit(3) | self.ent_flags.val().get_bit(6);
        self.stf.next.index = self.idx16.val();
        self.stf.next.data_addr = self.command.val().data_addr;
        self.sf.next.flags = 0.into();
        self.sf.next.reply = true;
        self.sf.next.rev = self.ent.val().rev;
        self.sf.next.data_len = self.command.val().data_len;
        self.sf.next.ird_word = self.negotiate.ird_word.val();
        self.sf.next.ord_word = self.negotiate.ord_word.val();
        self.f_tos.next = self.cmd_tos.val();
        if self.job.q.val() == ConnJob::Synced {
            self.f_s.next = self.ent.val().enhanced;
            self.f_c.next = !self.ent.val().no_crc;
            self.f_tos.next = self.ent.val().tos;
            self.stf.next.data_addr = self.ent.val().data_addr;
            self.sf.next.reply = false;
            self.sf.next.rev = 1.into();
            if self.ent.val().enhanced {
                self.sf.next.rev = 2.into();
            }
            self.sf.next.data_len = bit_cast::<16, 10>(self.ent.val().data_out);
            self.sf.next.ird_word = self.req_ird_word.val();
            self.sf.next.ord_word = self.req_ord_word.val();
            if self.ent.val().peer_to_peer {
                self.sf.next.ird_word = self.req_ird_word.val() | self.bit_a.val();
                self.sf.next.ord_word = self.req_ord_word.val() | self.bits_cd.val();
            }
        } else if self.job.q.val() == ConnJob::Frame {
            self.f_c.next = true;
            self.f_tos.next = 0.into();
            self.sf.next.rev = self.got.val().rev;
            self.sf.next.data_len = 0.into();
        }
        if !self.f_s.val() {
            self.sf.next.ird_word = 0.into();
            self.sf.next.ord_word = 0.into();
        }
        self.own_flags.next = 0.into();
        self.f_len.next = self.sf.val().data_len + 20;
        self.stf.next.frame = self.sf.val();

        match self.state.q.val() {
            ConnState::Clear => {
                // idx is 0 since the reset
                self.entries.clear.next = true;
                self.listeners.clear.next = true;
                if self.entries.row_cleared.val() {
                    self.idx.d.next = self.idx.q.val() + 1;
                    if self.idx.q.val() == self.last_index.val() {
                        self.state.d.next = ConnState::Idle;
                    }
                }
            }
            ConnState::Idle => {
                if self.fault.valid.val() {
                    self.fault.ready.next = true;
                    self.idx.d.next = bit_cast::<C, 16>(self.fault.data.val());
                    self.job.d.next = ConnJob::Fault;
                    self.cause.d.next = ConnStatus::Fault;
                    self.state.d.next = ConnState::Read;
                } else if self.inbox.out.valid.val() {
                    self.state.d.next = ConnState::Read;
                    if self.msg.val().start {
                        self.idx.d.next = bit_cast::<C, 16>(self.res.val().index);
                        self.cause.d.next = ConnStatus::Protocol;
                        match self.res_note.val() {
                            StartRxNote::Frame => {
                                self.job.d.next = ConnJob::Frame;
                            }
                            StartRxNote::Delivered => {
                                self.job.d.next = ConnJob::Delivered;
                            }
                            StartRxNote::Failed => {
                                self.job.d.next = ConnJob::Delivered;
                            }
                            _ => {
                                self.job.d.next = ConnJob::Broken;
                            }
                        }
                    } else {
                        self.idx.d.next = bit_cast::<C, 16>(self.rxm.val().index);
                        self.cause.d.next = ConnStatus::Reset;
                        match self.rx_note.val() {
                            RxCmNote::Opened => {
                                self.job.d.next = ConnJob::Opened;
                            }
                            RxCmNote::Exists => {
                                self.job.d.next = ConnJob::NotOpened;
                                self.cause.d.next = ConnStatus::AddressInUse;
                            }
                            RxCmNote::NoSlot => {
                                self.job.d.next = ConnJob::NotOpened;
                                self.cause.d.next = ConnStatus::NoMemory;
                            }
                            RxCmNote::Reopened => {
                                self.job.d.next = ConnJob::Reopened;
                            }
                            RxCmNote::Passive => {
                                self.job.d.next = ConnJob::Passive;
                            }
                            RxCmNote::Synced => {
                                self.job.d.next = ConnJob::Synced;
                            }
                            RxCmNote::Fin => {
                                self.job.d.next = ConnJob::Fin;
                            }
                            RxCmNote::Reset => {
                                self.job.d.next = ConnJob::Reset;
                                if self.rxm.val().refused {
                                    self.cause.d.next = ConnStatus::Refused;
                                }
                            }
                            RxCmNote::Closed => {
                                self.job.d.next = ConnJob::Closed;
                                self.cause.d.next = ConnStatus::Ok;
                            }
                            _ => {
                                self.job.d.next = ConnJob::WaitEnd;
                            }
                        }
                    }
                } else if self.from_tx.valid.val() {
                    self.from_tx.ready.next = true;
                    self.idx.d.next = bit_cast::<C, 16>(self.txm.val().index);
                    self.job.d.next = ConnJob::GivenUp;
                    self.state.d.next = ConnState::Read;
                    match self.tx_note.val() {
                        TxCmNote::Freed => {
                            self.job.d.next = ConnJob::Freed;
                        }
                        TxCmNote::Unreachable => {
                            self.cause.d.next = ConnStatus::HostUnreachable;
                        }
                        _ => {
                            self.cause.d.next = ConnStatus::TimedOut;
                        }
                    }
                } else if self.from_qp.valid.val() {
                    self.from_qp.ready.next = true;
                    self.idx.d.next = bit_cast::<C, 16>(self.news.val().index);
                    self.cause.d.next = ConnStatus::Reset;
                    self.state.d.next = ConnState::Read;
                    match self.news_note.val() {
                        QpNote::Drained => {
                            self.job.d.next = ConnJob::Drained;
                        }
                        QpNote::Cut => {
                            self.job.d.next = ConnJob::Cut;
                        }
                        QpNote::Heard => {
                            self.job.d.next = ConnJob::Heard;
                        }
                        QpNote::Terminated => {
                            self.job.d.next = ConnJob::Terminated;
                        }
                        QpNote::Failed => {
                            self.job.d.next = ConnJob::Failed;
                            self.cause.d.next = ConnStatus::Fault;
                        }
                        _ => {
                            self.torn.d.next = self.news_note.val() == QpNote::Torn;
                            self.job.d.next = ConnJob::Unbound;
                        }
                    }
                } else if self.expired.valid.val() {
                    self.expired.ready.next = true;
                    self.idx.d.next = bit_cast::<C, 16>(self.expired.data.val());
                    self.job.d.next = ConnJob::Expired;
                    self.cause.d.next = ConnStatus::TimedOut;
                    self.state.d.next = ConnState::Read;
                } else if self.freed_read.valid.val() {
                    self.freed_read.ready.next = true;
                    self.idx.d.next = bit_cast::<C, 16>(self.freed_read.data.val());
                    self.job.d.next = ConnJob::FreedRead;
                    self.state.d.next = ConnState::Read;
                } else if self.shutdown.val() & !self.all_shut.q.val() & !self.opening.q.val() {
                    self.all_pass.d.next = true;
                    self.unsettled.d.next = false;
                    self.sweeping.d.next = true;
                    self.job.d.next = ConnJob::Shutdown;
                    self.cause.d.next = ConnStatus::Reset;
                    self.idx.d.next = 0.into();
                    self.state.d.next = ConnState::Read;
                    if self.live_count.q.val() == 0 {
                        self.all_pass.d.next = false;
                        self.sweeping.d.next = false;
                        self.all_shut.d.next = true;
                        self.state.d.next = ConnState::Idle;
                    }
                } else if self.listener.valid.val() & !self.done_wait.q.val() {
                    self.job.d.next = ConnJob::Listener;
                    self.state.d.next = ConnState::Read;
                } else if self.pending.q.val().any() & self.room.val() {
                    self.scan.d.next = self.scan.q.val() + 1;
                    if self.pending.q.val().get_bit(self.scan.q.val().index()) {
                        self.idx.d.next = self.scan.q.val();
                        self.job.d.next = ConnJob::Event;
                        self.state.d.next = ConnState::Read;
                    }
                } else if self.cmd.valid.val() & self.room.val() & !self.shutdown.val() {
                    self.idx.d.next = bit_cast::<C, 16>(self.cmd_index.val());
                    self.job.d.next = ConnJob::Command;
                    self.cause.d.next = ConnStatus::Reset;
                    self.state.d.next = ConnState::Read;
                }
            }
            ConnState::Read => {
                self.ported.d.next = false;
                self.give_back.d.next = false;
                self.entries.open.next = true;
                self.state.d.next = ConnState::Load;
            }
            ConnState::Load => {
                self.g.d.next = self.generations.read_data.val();
                if self.entries.there.val() {
                    self.state.d.next = ConnState::Listener;
                }
            }
            ConnState::Listener => {
                self.lslot.d.next = self.lsel.val();
                self.listeners.open.next = true;
                self.due.d.next = self.ent.val().timer & !self.age.val().get_bit(31);
                self.handle_ok.d.next = (self.command.val().kind == self.handle_connection.val())
                    & (self.cmd_index.val() < self.connections.val())
                    & (self.command.val().generation == self.g.q.val())
                    & self.ent.val().announced;
                self.state.d.next = ConnState::Settle;
            }
            ConnState::Settle => {
                if self.listeners.there.val() {
                    self.state.d.next = ConnState::Act;
                }
            }
            ConnState::Act => {
                self.state.d.next = ConnState::Out;
                self.pick.d.next = 0.into();
                self.rank.d.next = 0.into();
                match self.job.q.val() {
                    ConnJob::Opened => {
                        self.opening.d.next = false;
                        self.reply.next = true;
                        self.n.next.phase = ConnPhase::SynSent;
                        self.n.next.announced = true;
                        self.n.next.context = self.command.val().context;
                        self.n.next.qpn = self.command.val().qpn;
                        self.n.next.tuple = self.open_tuple.q.val();
                        self.n.next.has_user = true;
                        self.n.next.user = self.open_user.q.val().get_bits::<12>(0);
                        self.n.next.enhanced = self.flags.val().get_bit(0);
                        self.n.next.peer_to_peer = self.flags.val().get_bit(1);
                        self.n.next.retry = self.flags.val().get_bit(2);
                        self.n.next.no_crc = self.flags.val().get_bit(3);
                        self.n.next.open_ird = self.negotiate.open_ird.val();
                        self.n.next.open_ord = self.negotiate.open_ord.val();
                        self.n.next.own_ird = self.negotiate.ird.val().get_bits::<8>(0);
                        self.n.next.own_ord = self.negotiate.ord.val().get_bits::<8>(0);
                        self.n.next.tos = self.command.val().tos;
                        self.n.next.data_addr = self.command.val().data_addr;
                        self.n.next.data_out = bit_cast::<10, 16>(self.command.val().data_len);
                        self.set_timer.next = true;
                        self.time_out.next = self.connect_timeout.val();
                        if self.command.val().timeout_us != 0 {
                            self.time_out.next = self.command.val().timeout_us;
                        }
                    }
                    ConnJob::NotOpened => {
                        self.opening.d.next = false;
                        self.reply.next = true;
                        self.reply_status.next = self.cause.q.val();
                        self.todo_port.d.next = true;
                        self.port_op.d.next = PortOp::Close;
                        self.port_slot.d.next = self.open_user.q.val();
                    }
                    ConnJob::Passive => {
                        self.n.next.passive = true;
                        self.n.next.tuple = self.msg_tuple.val();
                        self.n.next.listener = bit_cast::<8, 16>(self.rxm.val().listener);
                        self.n.next.listener_generation = self.listeners.row.val().generation;
                        self.n.next.context = self.listeners.row.val().context;
                        if self.listeners.row.val().live & !self.shutdown.val() {
                            self.n.next.phase = ConnPhase::WaitSync;
                            self.set_timer.next = true;
                            self.time_out.next = self.mpa_timeout.val();
                            self.todo_port.d.next = true;
                            self.port_op.d.next = PortOp::Join;
                            self.port_slot.d.next = self.rxm.val().listener;
                        } else {
                            // its listener has ended while the SYN was on its way here
                            self.ending.next = true;
                        }
                    }
                    ConnJob::Synced => {
                        if self.ph.val() == ConnPhase::SynSent {
                            self.n.next.phase = ConnPhase::WaitReply;
                            self.send.next = true;
                        } else if self.ph.val() == ConnPhase::WaitSync {
                            self.n.next.phase = ConnPhase::WaitRequest;
                        }
                    }
                    ConnJob::Fin => {
                        self.peer_left.next = true;
                        self.dead.next = true;
                        if self.ph.val() == ConnPhase::Established {
                            self.dead.next = false;
                            self.n.next.owe_disconnect = true;
                            self.empty_first.next = true;
                        } else if self.ph.val() == ConnPhase::ReplyData {
                            self.dead.next = false;
                            self.n.next.fin = true;
                        } else if (self.ph.val() == ConnPhase::Closing) | (self.ph.val() == ConnPhase::Emptying) {
                            self.dead.next = false;
                        } else if self.ph.val() == ConnPhase::Lingering {
                            self.dead.next = false;
                            self.start_close.next = true;
                        }
                    }
                    ConnJob::Reset => {
                        self.peer_left.next = true;
                        self.dead.next = true;
                        self.quietly.next = true;
                    }
                    ConnJob::Reopened => {
                        if self.ph.val() == ConnPhase::Reopening {
                            if self.rxm.val().refused {
                                self.let_go.next = true;
                                self.finish.next = true;
                                if !self.ent.val().dead {
                                    self.n.next.owe_reply = true;
                                    self.n.next.status = ConnStatus::Reset;
                                }
                            } else if self.ent.val().dead {
                                self.ending.next = true;
                            } else {
                                self.n.next.phase = ConnPhase::SynSent;
                            }
                        }
                    }
                    ConnJob::GivenUp => {
                        self.dead.next = true;
                        self.quietly.next = true;
                    }
                    ConnJob::Broken => {
                        self.dead.next = self.ph.val() != ConnPhase::SynSent;
                    }
                    ConnJob::Fault => {
                        self.dead.next = self.ph.val() != ConnPhase::SynSent;
                    }
                    ConnJob::Expired => {
                        if self.due.q.val() {
                            self.n.next.timer = false;
                            self.start_close.next = self.ph.val() == ConnPhase::Lingering;
                            self.dead.next = self.ph.val() != ConnPhase::Lingering;
                            self.forced.next = true;
                            self.cnt_mpa_timeouts.next =
                                (self.ph.val() == ConnPhase::WaitReply) | (self.ph.val() == ConnPhase::WaitRequest);
                        }
                    }
                    ConnJob::Closed => {
                        if self.rxm.val().waiting & self.ent.val().has_user {
                            self.todo_port.d.next = true;
                            self.port_op.d.next = PortOp::Wait;
                            self.port_slot.d.next = bit_cast::<16, 12>(self.ent.val().user);
                            self.n.next.has_user = false;
                            self.wait_users.write_enable.next = true;
                            self.wait_valid.d.next = self.wait_valid.q.val().replace_bit(self.wait_index.val().index(), true);
                        }
                        if self.ph.val() == ConnPhase::Closing {
                            self.ending.next = true;
                            self.quietly.next = true;
                            if self.ent.val().broken {
                                self.dead_status.next = ConnStatus::Protocol;
                            }
                        }
                    }
                    ConnJob::WaitEnd => {
                        if self.wait_known.val() {
                            self.todo_port.d.next = true;
                            self.port_op.d.next = PortOp::WaitEnd;
                            self.port_slot.d.next = self.wait_users.read_data.val();
                            self.wait_valid.d.next = self.wait_valid.q.val().replace_bit(self.wait_index.val().index(), false);
                        }
                    }
                    ConnJob::Frame => {
                        if (self.ph.val() == ConnPhase::WaitReply)
                            | (self.ph.val() == ConnPhase::WaitRequest)
                            | (self.ph.val() == ConnPhase::WaitSync)
                        {
                            self.n.next.peer_enhanced = self.got_enhanced.val();
                            self.n.next.flags = self.got.val().flags;
                            self.n.next.rev = self.got.val().rev;
                            self.n.next.data_in = bit_cast::<10, 16>(self.got.val().data_len);
                            if self.got_enhanced.val() {
                                self.n.next.ird_word = self.got.val().ird_word;
                                self.n.next.ord_word = self.got.val().ord_word;
                            }
                            // the one place where a start-up timer ends well (MPA-42)
                            self.n.next.timer = false;
                            self.todo_deadline.d.next = true;
                        }
                        self.refused.next = self.got_flags.val().get_bit(5);
                        if self.ph.val() == ConnPhase::WaitReply {
                            if self.got_flags.val().get_bit(5) {
                                self.cnt_mpa_rejects_in.next = true;
                                self.begin_data.next = true;
                            } else if self.got_enhanced.val() != self.ent.val().enhanced {
                                self.dead.next = true;
                            } else if self.ent.val().enhanced & self.negotiate.no_ird.val() {
                                self.give_up.next = true;
                                self.dead_status.next = ConnStatus::NoMemory;
                                self.order.d.next.terminate = 0x06.into();
                            } else if self.ent.val().enhanced & self.negotiate.no_rtr.val() {
                                self.give_up.next = true;
                                self.order.d.next.terminate = 0x07.into();
                            } else {
                                self.n.next.own_ird = self.negotiate.ird.val().get_bits::<8>(0);
                                self.n.next.own_ord = self.negotiate.ord.val().get_bits::<8>(0);
                                self.begin_data.next = true;
                            }
                        } else if (self.ph.val() == ConnPhase::WaitRequest) | (self.ph.val() == ConnPhase::WaitSync) {
                            self.todo_rx.d.next = true;
                            self.rx_op.d.next = CmRxOp::HalfDone;
                            if self.listeners.row.val().waiting >= self.listeners.row.val().limit {
                                self.cnt_mpa_non_peer_rejects.next = true;
                                self.reject.next = true;
                            } else {
                                self.ln.next.waiting = self.listeners.row.val().waiting + 1;
                                self.n.next.counted = true;
                                self.n.next.own_ird = self.most.val();
                                self.n.next.own_ord = self.most.val();
                                self.begin_data.next = true;
                            }
                        }
                    }
                    ConnJob::Delivered => {
                        self.n.next.delivering = false;
                        if self.ph.val() == ConnPhase::Draining {
                            self.finish.next = !self.ent.val().bound;
                        } else if self.res_note.val() == StartRxNote::Failed {
                            self.dead.next = self.ent.val().delivering;
                            self.forced.next = true;
                            self.dead_status.next = ConnStatus::Fault;
                            if (self.ph.val() == ConnPhase::ReplyData)
                                & self.ent.val().enhanced
                                & !self.refused.val()
                                & !self.ent.val().fin
                                & !self.ent.val().dead
                            {
                                self.dead.next = false;
                                self.give_up.next = true;
                                self.order.d.next.terminate = 0x05.into();
                            }
                        } else if self.ph.val() == ConnPhase::RequestData {
                            self.n.next.phase = ConnPhase::Requested;
                            self.n.next.owe_request = true;
                        } else if self.ph.val() == ConnPhase::ReplyData {
                            self.conclude.next = true;
                        }
                    }
                    ConnJob::Freed => {
                        if (self.ph.val() == ConnPhase::Freeing) & self.ent.val().again {
                            self.n.next.phase = ConnPhase::Reopening;
                            self.n.next.again = false;
                            self.n.next.enhanced = false;
                            self.todo_rx.d.next = true;
                            self.rx_op.d.next = CmRxOp::Reopen;
                            self.cnt_mpa_retries.next = true;
                        } else if (self.ph.val() == ConnPhase::Freeing) | (self.ph.val() == ConnPhase::Gone) {
                            self.let_go.next = true;
                            if self.ph.val() == ConnPhase::Gone {
                                self.n.next.phase = ConnPhase::GoneFreed;
                            } else if self.ent.val().delivering | self.ent.val().bound {
                                self.n.next.phase = ConnPhase::Draining;
                            } else {
                                self.finish.next = true;
                            }
                        }
                    }
                    ConnJob::Unbound => {
                        self.n.next.bound = false;
                        // FIN amid an FPDU is no orderly end (TD-2), unless a Terminate had ended the stream before
                        if self.torn.q.val() & (self.ent.val().close_status == ConnStatus::Ok) {
                            self.n.next.close_status = ConnStatus::Reset;
                        }
                        if self.ph.val() == ConnPhase::Draining {
                            self.finish.next = !self.ent.val().delivering;
                        }
                    }
                    ConnJob::Drained => {
                        if self.ph.val() == ConnPhase::Emptying {
                            self.n.next.phase = ConnPhase::Closing;
                            self.todo_close.d.next = true;
                        }
                    }
                    ConnJob::Cut => {
                        self.dead.next = self.ph.val() == ConnPhase::Emptying;
                    }
                    ConnJob::Heard => {
                        self.n.next.await_rtr = false;
                    }
                    ConnJob::Terminated => {
                        self.n.next.broken = true;
                        // before FIN; what the peer has under way must not be answered by RST
                        self.todo_rx.d.next = true;
                        self.rx_op.d.next = CmRxOp::Discard;
                        if self.ph.val() == ConnPhase::Established {
                            self.start_close.next = true;
                        } else if self.ph.val() == ConnPhase::Emptying {
                            self.n.next.phase = ConnPhase::Closing;
                            self.todo_close.d.next = true;
                        }
                    }
                    ConnJob::Failed => {
                        self.dead.next = true;
                    }
                    ConnJob::FreedRead => {
                        self.todo_rx.d.next = true;
                        self.rx_op.d.next = CmRxOp::Free;
                    }
                    ConnJob::Listener => {
                        self.ln.next.live = self.upd.val().live;
                        self.ln.next.generation = self.upd.val().generation;
                        self.ln.next.context = self.upd.val().context;
                        self.ln.next.limit = self.accept_limit.val();
                        self.ln.next.waiting = 0.into();
                        self.todo_rx.d.next = true;
                        self.rx_op.d.next = CmRxOp::Limit;
                    }
                    ConnJob::Sweep => {
                        if self.ent.val().passive
                            & !self.ent.val().announced
                            & (bit_cast::<16, 8>(self.ent.val().listener) == self.sweep_slot.q.val())
                            & (self.ent.val().listener_generation == self.sweep_generation.q.val())
                        {
                            self.dead.next = (self.ph.val() != ConnPhase::Closing) & (self.ph.val() != ConnPhase::Lingering);
                        }
                    }
                    ConnJob::Shutdown => {
                        self.dead.next = true;
                        self.forced.next = true;
                    }
                    ConnJob::Command => {
                        self.reply.next = true;
                        if self.command.val().opcode == self.op_connect.val() {
                            if self.bad_flags.q.val() | self.bad_remote.q.val() | self.too_long.q.val() | self.cmd_timeout.val().get_bit(31)
                            {
                                self.reply_status.next = ConnStatus::Invalid;
                            } else {
                                self.reply.next = false;
                                self.state.d.next = ConnState::Scan;
                            }
                        } else if (self.command.val().opcode != self.op_accept.val())
                            & (self.command.val().opcode != self.op_reject.val())
                            & (self.command.val().opcode != self.op_disconnect.val())
                            & (self.command.val().opcode != self.op_abort.val())
                        {
                            self.reply_status.next = ConnStatus::UnknownOpcode;
                            self.cnt_cmd_unknown.next = true;
                        } else if self.bad_flags.q.val() {
                            self.reply_status.next = ConnStatus::Invalid;
                        } else if !self.handle_ok.q.val() {
                            self.reply_status.next = ConnStatus::NoEntry;
                            self.cnt_stale_handles.next = true;
                        } else if self.command.val().opcode == self.op_abort.val() {
                            self.dead.next = true;
                            self.forced.next = true;
                            self.answered.next = true;
                        } else if self.command.val().opcode == self.op_disconnect.val() {
                            if self.ph.val() == ConnPhase::Established {
                                self.empty_first.next = true;
                            } else if !self.ent.val().established {
                                self.reply_status.next = ConnStatus::Invalid;
                            }
                        } else if (self.ph.val() == ConnPhase::Gone) | (self.ph.val() == ConnPhase::GoneFreed) {
                            self.answered.next = true;
                            if self.command.val().opcode == self.op_accept.val() {
                                self.reply_status.next = ConnStatus::Reset;
                            } else {
                                self.n.next.context = self.command.val().context;
                            }
                        } else if (self.ph.val() != ConnPhase::Requested) | self.too_long.q.val() {
                            self.reply_status.next = ConnStatus::Invalid;
                        } else if self.command.val().opcode == self.op_reject.val() {
                            self.n.next.context = self.command.val().context;
                            self.uncount.next = true;
                            self.reject.next = true;
                            self.cnt_mpa_rejects_out.next = true;
                        } else if self.negotiate.no_ird.val() | (self.flags.val().get_bit(4) & self.negotiate.above.val()) {
                            self.reply_status.next = ConnStatus::NoMemory;
                            self.uncount.next = true;
                            self.reject.next = true;
                            self.cnt_mpa_rejects_out.next = true;
                        } else {
                            self.uncount.next = true;
                            self.accept.next = true;
                            self.n.next.phase = ConnPhase::Established;
                            self.n.next.context = self.command.val().context;
                            self.n.next.qpn = self.command.val().qpn;
                            self.n.next.own_ird = self.negotiate.ird.val().get_bits::<8>(0);
                            self.n.next.own_ord = self.negotiate.ord.val().get_bits::<8>(0);
                            self.n.next.owe_reply = true;
                            self.established.next = true;
                        }
                    }
                    _ => {
                        // Event: the tail does it
                        self.raise.next = false;
                    }
                }
                if (self.job.q.val() == ConnJob::Opened) | (self.job.q.val() == ConnJob::Passive) {
                    self.g.d.next = self.g_next.val();
                    // now, not in `Store`: a reset in between must not make the next one get this handle again
                    self.generations.write_enable.next = true;
                    self.live_count.d.next = self.live_count.q.val() + 1;
                    self.cnt_conn_created.next = true;
                }

                // all orders of a job are of one index; rdma::qps finds the row by the queue pair
                self.order.d.next.index = self.idx16.val();
                self.order.d.next.qpn = self.n.val().qpn;
                self.order.d.next.crc = self.bind_crc.val();
                self.order.d.next.markers = self.told_flags.val().get_bit(7);
                if self.give_up.val() {
                    self.n.next.phase = ConnPhase::Emptying;
                    self.n.next.bound = true;
                    self.n.next.owe_reply = true;
                    self.n.next.status = self.dead_status.val();
                    self.todo_rx.d.next = true;
                    self.rx_op.d.next = CmRxOp::Full;
                    self.todo_qp.d.next = true;
                    self.order.d.next.op = QpOp::Bind;
                    self.order.d.next.responder = false;
                    self.order.d.next.rtr_write = false;
                    self.order.d.next.rtr_read = false;
                    // the deadline of CONNECT goes on
                    self.n.next.timer = true;
                    self.todo_deadline.d.next = true;
                }
                // private data first, then the news
                if self.begin_data.val() {
                    if self.got.val().data_len != 0 {
                        self.n.next.delivering = true;
                        self.todo_deliver.d.next = true;
                        self.n.next.phase = ConnPhase::RequestData;
                        if !self.ent.val().passive {
                            self.n.next.phase = ConnPhase::ReplyData;
                        }
                    } else if self.ent.val().passive {
                        self.n.next.phase = ConnPhase::Requested;
                        self.n.next.owe_request = true;
                    } else {
                        self.conclude.next = true;
                    }
                }
                if self.conclude.val() {
                    self.n.next.owe_reply = true;
                    self.dead_status.next = self.ent.val().close_status;
                    self.ending.next = self.ent.val().dead;
                    if self.refused.val() {
                        self.n.next.status = ConnStatus::Refused;
                        self.start_close.next = !self.ent.val().dead;
                    } else {
                        self.established.next = true;
                        self.n.next.phase = ConnPhase::Established;
                        if self.ent.val().fin & !self.ent.val().dead {
                            self.n.next.owe_disconnect = true;
                            self.start_close.next = true;
                        }
                    }
                }
                if self.established.val() {
                    self.n.next.established = true;
                    self.n.next.close_due = true;
                    self.todo_rx.d.next = true;
                    self.rx_op.d.next = CmRxOp::Full;
                    self.cnt_conn_established.next = true;
                    if !self.start_close.val() & !self.ending.val() {
                        self.n.next.bound = true;
                        self.n.next.await_rtr = self.ent.val().passive & self.bind_rtr.val();
                        self.todo_qp.d.next = true;
                        self.order.d.next.op = QpOp::Bind;
                        self.order.d.next.terminate = 0.into();
                        self.order.d.next.responder = self.ent.val().passive;
                        self.order.d.next.ird = bit_cast::<16, 8>(self.n.val().own_ird);
                        self.order.d.next.ord = bit_cast::<16, 8>(self.n.val().own_ord);
                        self.order.d.next.rtr_write = self.bind_rtr.val() & (self.ent.val().passive | self.told_ord.val().get_bit(15));
                        self.order.d.next.rtr_read = self.bind_rtr.val() & (self.ent.val().passive | !self.told_ord.val().get_bit(15));
                    }
                }
                // FIN is behind all that was posted
                if self.empty_first.val() {
                    self.start_close.next = !self.ent.val().bound;
                    if self.ent.val().bound {
                        self.n.next.phase = ConnPhase::Emptying;
                        self.set_timer.next = true;
                        self.todo_qp.d.next = true;
                        self.order.d.next.op = QpOp::Close;
                        if self.job.q.val() == ConnJob::Fin {
                            self.order.d.next.op = QpOp::Stop;
                        }
                    }
                }

                // the end, as far as the peer, TCP, a timer or the host brings it
                self.owes_reply.next = (self.ph.val() == ConnPhase::SynSent)
                    | (self.ph.val() == ConnPhase::WaitReply)
                    | ((self.ph.val() == ConnPhase::ReplyData) & self.forced.val());
                if self.dead.val() {
                    if self.owes_reply.val() {
                        self.ending.next = true;
                        if (self.ph.val() == ConnPhase::WaitReply) & self.peer_left.val() & self.ent.val().retry & !self.ent.val().retried {
                            self.n.next.again = true;
                            self.n.next.retried = true;
                        } else {
                            self.n.next.owe_reply = true;
                            self.n.next.status = self.dead_status.val();
                        }
                    } else if (self.ph.val() == ConnPhase::Freeing) & self.ent.val().again & self.forced.val() {
                        // neither a time-out nor ABORT waits for the retry
                        self.n.next.again = false;
                        self.n.next.owe_reply = true;
                        self.n.next.status = self.dead_status.val();
                        self.n.next.timer = false;
                        self.todo_deadline.d.next = self.job.q.val() == ConnJob::Command;
                    } else if (self.ph.val() == ConnPhase::Reopening) & self.forced.val() & !self.ent.val().dead {
                        self.n.next.dead = true;
                        self.n.next.owe_reply = true;
                        self.n.next.status = self.dead_status.val();
                        self.n.next.timer = false;
                        self.todo_deadline.d.next = self.job.q.val() == ConnJob::Command;
                    } else if self.ph.val() == ConnPhase::ReplyData {
                        self.n.next.dead = true;
                        self.n.next.close_status = self.dead_status.val();
                    } else if self.ph.val() == ConnPhase::Requested {
                        self.ending.next = true;
                        self.n.next.owe_request = false;
                        if self.ent.val().announced & !self.forced.val() {
                            self.to_gone.next = true;
                        } else {
                            self.uncount.next = true;
                        }
                    } else if (self.ph.val() == ConnPhase::WaitSync)
                        | (self.ph.val() == ConnPhase::WaitRequest)
                        | (self.ph.val() == ConnPhase::RequestData)
                        | (self.ph.val() == ConnPhase::Established)
                        | (self.ph.val() == ConnPhase::Emptying)
                        | (self.ph.val() == ConnPhase::Lingering)
                        | (self.ph.val() == ConnPhase::Closing)
                    {
                        self.ending.next = true;
                        self.uncount.next = true;
                    }
                }
                if self.answered.val() {
                    if self.ph.val() == ConnPhase::Gone {
                        self.uncount.next = true;
                        self.n.next.phase = ConnPhase::Freeing;
                    } else if self.ph.val() == ConnPhase::GoneFreed {
                        self.uncount.next = true;
                        self.finish.next = true;
                    }
                }
                if self.reject.val() {
                    self.start_close.next = !self.lingers.q.val();
                    if self.lingers.q.val() {
                        self.n.next.phase = ConnPhase::Lingering;
                        self.set_timer.next = true;
                        self.time_out.next = self.refusal_timeout.val();
                    }
                }
                if self.start_close.val() | self.empty_first.val() {
                    self.n.next.await_rtr = false;
                }
                if self.start_close.val() {
                    self.n.next.phase = ConnPhase::Closing;
                    self.todo_close.d.next = true;
                    self.set_timer.next = true;
                }
                if self.ending.val()
                    | (self.ph.val() == ConnPhase::Freeing)
                    | (self.ph.val() == ConnPhase::Gone)
                    | (self.ph.val() == ConnPhase::Reopening)
                    | self.ent.val().bound
                {
                    self.unsettled.d.next = true;
                }
                if self.ending.val() {
                    self.n.next.phase = ConnPhase::Freeing;
                    if self.to_gone.val() {
                        self.n.next.phase = ConnPhase::Gone;
                    }
                    self.todo_end.d.next = true;
                    self.end_soft.d.next = self.quietly.val();
                    self.n.next.await_rtr = false;
                    if self.ent.val().bound {
                        self.todo_qp.d.next = true;
                        self.order.d.next.op = QpOp::Unbind;
                    }
                    if self.n.val().close_due {
                        self.n.next.close_due = false;
                        self.n.next.owe_close = true;
                        self.n.next.close_status = self.dead_status.val();
                    }
                    // the deadline of CONNECT goes on over a retry
                    if self.n.val().timer & !self.n.val().again {
                        self.n.next.timer = false;
                        self.todo_deadline.d.next = true;
                    }
                }
                if self.let_go.val() {
                    if self.ent.val().has_user {
                        self.n.next.has_user = false;
                        self.todo_port.d.next = true;
                        self.port_op.d.next = PortOp::Close;
                        self.port_slot.d.next = bit_cast::<16, 12>(self.ent.val().user);
                    }
                    if self.ent.val().timer {
                        self.n.next.timer = false;
                        self.todo_deadline.d.next = true;
                    }
                }
                if self.finish.val() {
                    self.n.next.phase = ConnPhase::Done;
                    self.n.next.owe_freed = self.ent.val().announced;
                }
                if self.set_timer.val() {
                    self.n.next.timer = true;
                    self.span.d.next = self.time_out.val();
                    self.arm.d.next = true;
                    self.todo_deadline.d.next = true;
                }
                if self.uncount.val() & self.ent.val().counted {
                    self.n.next.counted = false;
                    if self.same_listener.val() {
                        self.ln.next.waiting = self.listeners.row.val().waiting - 1;
                    }
                }
                if self.reject.val() {
                    self.own_flags.next = self.flag_r.val();
                    if self.f_s.val() {
                        self.sf.next.ord_word = self.negotiate.reject_ord_word.val();
                    }
                    if self.command.val().opcode == self.op_accept.val() {
                        self.sf.next.data_len = 0.into();
                    }
                    self.f_len.next = self.sf.val().data_len + 20;
                }
                if self.f_c.val() {
                    self.own_flags.next = self.own_flags.val() | self.flag_c.val();
                }
                if self.f_s.val() {
                    self.own_flags.next = self.own_flags.val() | self.flag_s.val();
                    self.f_len.next = self.f_len.val() + 4;
                }
                self.sf.next.flags = self.own_flags.val();
                self.stf.next.frame = self.sf.val();
                if self.send.val() | self.accept.val() | self.reject.val() {
                    self.todo_frame.d.next = true;
                    self.send_tos.d.next = self.f_tos.val() & self.dscp.val();
                    self.todo_send.d.next = true;
                    self.frame_reg.d.next = self.stf.val();
                    self.send_len.d.next = self.f_len.val();
                }
                self.entries.set.next = true;
                self.listeners.set.next = true;
            }
            ConnState::Scan => {
                for i in 0..4 {
                    if self.pick.q.val().index() == i {
                        self.near.d.next = self.addresses[i].val();
                    }
                }
                self.pick.d.next = self.pick.q.val() + 1;
                if (self.pick.q.val() != 0) & self.near.q.val().valid & (self.near_rank.val() > self.rank.q.val()) {
                    self.rank.d.next = self.near_rank.val();
                    self.pick_ip.d.next = self.near.q.val().ip;
                }
                if self.pick.q.val() == 5 {
                    self.state.d.next = ConnState::Out;
                    if self.rank.q.val() == 0 {
                        self.reply.next = true;
                        self.reply_status.next = ConnStatus::AddressNotAvailable;
                        self.ported.d.next = true;
                    } else {
                        self.state.d.next = ConnState::Rule;
                    }
                }
            }
            ConnState::Rule => {
                self.rule_query.valid.next = true;
                if self.rule_query.ready.val() {
                    self.state.d.next = ConnState::Ruled;
                }
            }
            ConnState::Ruled => {
                self.rule_answer.ready.next = true;
                if self.rule_answer.valid.val() {
                    self.state.d.next = ConnState::Out;
                    if self.rule_answer.data.val() {
                        self.cnt_conn_denied.next = true;
                        self.reply.next = true;
                        self.reply_status.next = ConnStatus::Denied;
                        self.ported.d.next = true;
                    } else {
                        self.todo_port.d.next = true;
                        self.port_op.d.next = PortOp::Open;
                    }
                }
            }
            ConnState::Out => {
                if self.arm.q.val() {
                    self.arm.d.next = false;
                    self.n.next.at = self.time_us.val() + self.span.q.val();
                    self.entries.set.next = true;
                }
                if self.all_told.val() {
                    self.state.d.next = ConnState::Tail;
                    if !self.ported.q.val()
                        & (((self.port_op.q.val() == PortOp::Open) & (self.job.q.val() == ConnJob::Command) & (self.pick.q.val() != 0))
                            | ((self.job.q.val() == ConnJob::Passive) & (self.ph.val() == ConnPhase::WaitSync)))
                    {
                        self.state.d.next = ConnState::Ported;
                    }
                }
            }
            ConnState::Ported => {
                self.ported.d.next = true;
                self.state.d.next = ConnState::Out;
                if self.job.q.val() == ConnJob::Passive {
                    self.n.next.has_user = self.rep_now.val().status == PortStatus::Ok;
                    self.n.next.user = bit_cast::<12, 16>(self.rep_now.val().user);
                    // no room, or the slot belongs to another listener by now
                    if (self.rep_now.val().status != PortStatus::Ok) | (self.rep_now.val().port != self.tup.val().local_port) {
                        self.n.next.phase = ConnPhase::Freeing;
                        self.n.next.timer = false;
                        self.todo_deadline.d.next = true;
                        self.todo_end.d.next = true;
                        self.end_soft.d.next = false;
                    }
                    self.entries.set.next = true;
                } else if self.rep_now.val().status == PortStatus::Ok {
                    self.open_user.d.next = self.rep_now.val().user;
                    self.open_tuple.d.next.local_ip = self.pick_ip.q.val();
                    self.open_tuple.d.next.local_port = self.rep_now.val().port;
                    self.open_tuple.d.next.remote_ip = self.command.val().remote_addr;
                    self.open_tuple.d.next.remote_port = self.command.val().remote_port;
                    if self.is_cmd_pair.val() {
                        // a connection with itself (TCP-48)
                        self.reply.next = true;
                        self.reply_status.next = ConnStatus::Invalid;
                        self.todo_port.d.next = true;
                        self.port_op.d.next = PortOp::Close;
                        self.port_slot.d.next = self.rep_now.val().user;
                    } else {
                        self.opening.d.next = true;
                        self.todo_rx.d.next = true;
                        self.rx_op.d.next = CmRxOp::Open;
                    }
                } else {
                    self.reply.next = true;
                    self.reply_status.next = ConnStatus::Invalid;
                    if self.rep_now.val().status == PortStatus::InUse {
                        self.reply_status.next = ConnStatus::AddressInUse;
                    } else if self.rep_now.val().status == PortStatus::Reserved {
                        self.reply_status.next = ConnStatus::Reserved;
                    } else if self.rep_now.val().status == PortStatus::NoPorts {
                        self.reply_status.next = ConnStatus::NoPorts;
                    } else if self.rep_now.val().status == PortStatus::NoSlot {
                        self.reply_status.next = ConnStatus::NoMemory;
                    }
                }
            }
            ConnState::Tail => {
                if self.owed.val() & self.room.val() {
                    self.raise.next = true;
                    if self.ent.val().owe_request {
                        self.ev_kind.next = self.kind_request.val();
                        self.n.next.owe_request = false;
                        self.n.next.announced = true;
                    } else if self.reply_due.val() {
                        self.ev_kind.next = self.kind_reply.val();
                        self.reply_status.next = self.ent.val().status;
                        if self.ent.val().passive {
                            self.ev_kind.next = self.kind_established.val();
                        }
                        self.n.next.owe_reply = false;
                    } else if self.ent.val().owe_disconnect {
                        self.ev_kind.next = self.kind_disconnect.val();
                        self.n.next.owe_disconnect = false;
                    } else if self.ent.val().owe_close {
                        self.ev_kind.next = self.kind_close.val();
                        self.reply_status.next = self.ent.val().close_status;
                        self.n.next.owe_close = false;
                    } else {
                        self.ev_kind.next = self.kind_freed.val();
                        self.n.next.owe_freed = false;
                    }
                }
                self.entries.set.next = true;
                // the last event may be the one that is raised just now
                if (self.ph.val() == ConnPhase::Done)
                    & !self.n.val().owe_request
                    & !self.n.val().owe_reply
                    & !self.n.val().owe_disconnect
                    & !self.n.val().owe_close
                    & !self.n.val().owe_freed
                {
                    self.give_back.d.next = true;
                    if !self.ent.val().announced {
                        self.todo_rx.d.next = true;
                        self.rx_op.d.next = CmRxOp::Free;
                    }
                }
                self.state.d.next = ConnState::Store;
            }
            ConnState::Store => {
                if !self.todo_rx.q.val() {
                    if self.give_back.q.val() {
                        self.entries.erase.next = true;
                        self.live_count.d.next = self.live_count.q.val() - 1;
                        self.cnt_conn_freed.next = true;
                    }
                    self.pending.d.next = self.pending.q.val().replace_bit(self.idx.q.val().index(), self.owed.val());
                    self.state.d.next = ConnState::Idle;
                    if self.sweeping.q.val() {
                        self.idx.d.next = self.idx.q.val() + 1;
                        self.state.d.next = ConnState::Read;
                        if self.idx.q.val() == self.last_index.val() {
                            self.sweeping.d.next = false;
                            self.all_pass.d.next = false;
                            self.done_wait.d.next = !self.all_pass.q.val();
                            self.all_shut.d.next = self.all_pass.q.val() & !self.unsettled.q.val();
                            self.state.d.next = ConnState::Idle;
                        }
                    }
                    if self.job.q.val() == ConnJob::Listener {
                        self.listener.ready.next = true;
                        if !self.upd.val().live {
                            self.sweeping.d.next = true;
                            self.sweep_slot.d.next = self.upd.val().slot;
                            self.sweep_generation.d.next = self.upd.val().generation;
                            self.job.d.next = ConnJob::Sweep;
                            self.cause.d.next = ConnStatus::Reset;
                            self.idx.d.next = 0.into();
                            self.state.d.next = ConnState::Read;
                        }
                    }
                    if (self.job.q.val() != ConnJob::Event)
                        & (self.job.q.val() != ConnJob::Command)
                        & (self.job.q.val() != ConnJob::Fault)
                        & (self.job.q.val() != ConnJob::Expired)
                        & (self.job.q.val() != ConnJob::GivenUp)
                        & (self.job.q.val() != ConnJob::Freed)
                        & (self.job.q.val() != ConnJob::Unbound)
                        & (self.job.q.val() != ConnJob::Drained)
                        & (self.job.q.val() != ConnJob::Cut)
                        & (self.job.q.val() != ConnJob::Heard)
                        & (self.job.q.val() != ConnJob::Terminated)
                        & (self.job.q.val() != ConnJob::Failed)
                        & (self.job.q.val() != ConnJob::FreedRead)
                        & (self.job.q.val() != ConnJob::Listener)
                        & (self.job.q.val() != ConnJob::Sweep)
                        & (self.job.q.val() != ConnJob::Shutdown)
                    {
                        self.inbox.out.ready.next = true;
                    }
                }
            }
            _ => {
                self.state.d.next = ConnState::Idle;
            }
        }
        self.entries.value.next = self.n.val();
        self.listeners.value.next = self.ln.val();
        // ---- the answer to a command, or an event of a connection; there is room for it
        self.ok.next = self.reply_status.val() == ConnStatus::Ok;
        self.ev_new.next.kind = self.ev_kind.val();
        self.ev_new.next.flags = 0.into();
        self.ev_new.next.status = 0.into();
        self.ev_new.next.context = self.command.val().context;
        self.ev_new.next.detail = 0.into();
        self.ev_new.next.index = 0.into();
        self.ev_new.next.handle_kind = 0.into();
        self.ev_new.next.generation = 0.into();
        self.ev_new.next.local_addr = self.command.val().local_addr;
        self.ev_new.next.local_port = self.command.val().local_port;
        self.ev_new.next.remote_port = self.command.val().remote_port;
        self.ev_new.next.remote_addr = self.command.val().remote_addr;
        self.ev_new.next.own_ird = 0.into();
        self.ev_new.next.own_ord = 0.into();
        self.ev_new.next.peer_ird = 0.into();
        self.ev_new.next.peer_ord = 0.into();
        self.ev_new.next.data_len = 0.into();
        self.ev_new.next.listener_index = 0.into();
        self.ev_new.next.listener_generation = 0.into();
        self.about_start.next = self.raise.val() & (self.ent.val().owe_request | self.reply_due.val());
        if self.raise.val() | (self.job.q.val() == ConnJob::Opened) {
            self.ev_new.next.index = self.idx16.val();
            self.ev_new.next.handle_kind = self.handle_connection.val();
            self.ev_new.next.generation = self.g.q.val();
            self.ev_new.next.local_addr = self.tup.val().local_ip;
            self.ev_new.next.local_port = self.tup.val().local_port;
            self.ev_new.next.remote_addr = self.tup.val().remote_ip;
            self.ev_new.next.remote_port = self.tup.val().remote_port;
        }
        if self.raise.val() {
            self.ev_new.next.context = self.ent.val().context;
        } else if self.job.q.val() == ConnJob::Opened {
            self.ev_new.next.generation = self.g_next.val();
            self.ev_new.next.local_addr = self.open_tuple.q.val().local_ip;
            self.ev_new.next.local_port = self.open_tuple.q.val().local_port;
            self.ev_new.next.remote_addr = self.command.val().remote_addr;
            self.ev_new.next.remote_port = self.command.val().remote_port;
        }
        if self.about_start.val() {
            self.ev_new.next.flags = self.ent.val().flags;
            self.ev_new.next.detail = bit_cast::<32, 8>(self.ent.val().rev);
            self.ev_new.next.own_ird = bit_cast::<16, 8>(self.ent.val().own_ird);
            self.ev_new.next.own_ord = bit_cast::<16, 8>(self.ent.val().own_ord);
            self.ev_new.next.peer_ird = bit_cast::<16, 14>(self.ent_ird.val().get_bits::<14>(0));
            self.ev_new.next.peer_ord = bit_cast::<16, 14>(self.ent_ord.val().get_bits::<14>(0));
        }
        if self.raise.val() & self.ent.val().owe_request {
            self.ev_new.next.data_len = bit_cast::<16, 10>(self.ent.val().data_in);
            self.ev_new.next.listener_index = bit_cast::<16, 8>(self.ent.val().listener);
            self.ev_new.next.listener_generation = self.ent.val().listener_generation;
        } else if self.about_start.val() & !self.ent.val().passive & (self.ok.val() | (self.reply_status.val() == ConnStatus::Refused)) {
            self.ev_new.next.data_len = bit_cast::<16, 10>(self.ent.val().data_in);
        }
        if self.raise.val() | (self.reply.val() & !(self.flags.val().get_bit(7) & self.ok.val())) {
            self.ev.d.next = self.ev_new.val();
            self.ev_status.d.next = self.reply_status.val();
            self.ev_valid.d.next = true;
        }
        if self.reply.val() {
            self.cmd.ready.next = true;
            self.cnt_cmd_done.next = self.ok.val();
            self.cnt_cmd_errors.next = !self.ok.val();
        }
        self.status_code.status.next = self.ev_status.q.val();
        self.ev_out.next = self.ev.q.val();
        self.ev_out.next.status = self.status_code.code.val();
        self.evt.data.next = self.ev_out.val();

        if self.reset.val() {
            self.state.d.next = ConnState::Clear;
            self.idx.d.next = 0.into();
            self.pending.d.next = 0.into();
            self.wait_valid.d.next = 0.into();
            self.live_count.d.next = 0.into();
            self.opening.d.next = false;
            self.sweeping.d.next = false;
            self.all_pass.d.next = false;
            self.all_shut.d.next = false;
            self.done_wait.d.next = false;
            self.todo_frame.d.next = false;
            self.todo_send.d.next = false;
            self.todo_close.d.next = false;
            self.todo_end.d.next = false;
            self.todo_rx.d.next = false;
            self.todo_deliver.d.next = false;
            self.todo_deadline.d.next = false;
            self.arm.d.next = false;
            self.todo_port.d.next = false;
            self.todo_qp.d.next = false;
            self.port_wait.d.next = false;
            self.ev_valid.d.next = false;
        }
    }
}
