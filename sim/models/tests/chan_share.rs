// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stream::ChanShare2` as `cm::port_share` and `net::neighbor_share`: each client gets the replies to its own requests.
use ironwarp_models::{bench, neighbor_share, port_share, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a client or the service drives: valid and a number, and whether it takes.
#[derive(Clone, Copy, Default)]
struct Client {
    request: Option<u16>,
    takes: bool,
}

/// The pins of both blocks, requests and replies as numbers.
trait Share: Dut {
    fn drive(&mut self, clients: [Client; 2], takes: bool, reply: Option<u16>);
    /// Requests taken from the clients.
    fn taken(&self) -> [bool; 2];
    fn request(&self) -> Option<u16>;
    fn reply(&self) -> [Option<u16>; 2];
    fn reply_taken(&self) -> bool;
    fn set_reset(&mut self, on: bool);
}

macro_rules! share {
    ($model:ident, $a_req:ident, $a_val:ident, $a_rdy:ident, $b_req:ident, $b_val:ident, $b_rdy:ident, $req:ident, $val:ident, $rdy:ident,
    $a_rsp:ident, $a_rval:ident, $a_rrdy:ident, $b_rsp:ident, $b_rval:ident, $b_rrdy:ident, $rsp:ident, $rval:ident, $rrdy:ident) => {
        impl Share for $model::Model {
            fn drive(&mut self, clients: [Client; 2], takes: bool, reply: Option<u16>) {
                self.$a_val.set(clients[0].request.is_some());
                self.$a_req.set(clients[0].request.unwrap_or(0xdead).into());
                self.$a_rrdy.set(clients[0].takes);
                self.$b_val.set(clients[1].request.is_some());
                self.$b_req.set(clients[1].request.unwrap_or(0xdead).into());
                self.$b_rrdy.set(clients[1].takes);
                self.$rdy.set(takes);
                self.$rval.set(reply.is_some());
                self.$rsp.set(reply.unwrap_or(0xbeef).into());
                self.eval();
            }
            fn taken(&self) -> [bool; 2] {
                [self.$a_rdy.get(), self.$b_rdy.get()]
            }
            fn request(&self) -> Option<u16> {
                self.$val.get().then(|| self.$req.get() as u16)
            }
            fn reply(&self) -> [Option<u16>; 2] {
                [self.$a_rval.get().then(|| self.$a_rsp.get() as u16), self.$b_rval.get().then(|| self.$b_rsp.get() as u16)]
            }
            fn reply_taken(&self) -> bool {
                self.$rrdy.get()
            }
            fn set_reset(&mut self, on: bool) {
                self.reset.set(on);
            }
        }
    };
}
share!(
    port_share,
    a_req_data_slot,
    a_req_valid,
    a_req_ready,
    b_req_data_slot,
    b_req_valid,
    b_req_ready,
    req_data_slot,
    req_valid,
    req_ready,
    a_rsp_data_user,
    a_rsp_valid,
    a_rsp_ready,
    b_rsp_data_user,
    b_rsp_valid,
    b_rsp_ready,
    rsp_data_user,
    rsp_valid,
    rsp_ready
);
share!(
    neighbor_share,
    a_query_data_ip,
    a_query_valid,
    a_query_ready,
    b_query_data_ip,
    b_query_valid,
    b_query_ready,
    query_data_ip,
    query_valid,
    query_ready,
    a_answer_data_mac,
    a_answer_valid,
    a_answer_ready,
    b_answer_data_mac,
    b_answer_valid,
    b_answer_ready,
    answer_data_mac,
    answer_valid,
    answer_ready
);

/// Requests: client in bit 15, then a count; the reply to a request is its complement. With `held` the service takes a request, as ARP does, only
/// in the clock before it replies.
fn random(m: &mut impl Share, rng: &mut ChaCha8Rng, held: bool) {
    let (mut count, mut done, mut passed) = ([0u16; 2], [0u32; 2], [0u32; 2]);
    for round in 0..20 {
        m.set_reset(true);
        m.drive(Default::default(), false, None);
        m.tick();
        m.set_reset(false);
        let mut clients = [Client::default(); 2];
        // asked and not answered, as the clients and the service know it
        let mut owed = [None; 2];
        let (mut serving, mut wait, mut standing) = (None, 0, None::<u16>);
        let mut offered = [None; 2];
        for _ in 0..rng.random_range(100..1500) {
            let busy = [0.9, 0.1, 1.0][round % 3];
            for (i, c) in clients.iter_mut().enumerate() {
                if c.request.is_none() && owed[i].is_none() && rng.random_bool(busy) {
                    c.request = Some((i as u16) << 15 | count[i]);
                }
                c.takes = rng.random_bool(0.6);
            }
            wait = u32::saturating_sub(wait, 1);
            let takes = serving.is_none() && if held { standing.is_some() && wait == 0 } else { rng.random_bool(0.5) };
            let reply: Option<u16> = serving.filter(|_| wait == 0);
            m.drive(clients, takes, reply.map(|r| !r));
            let request = m.request();
            if let Some(before) = standing {
                assert_eq!(request, Some(before), "what is offered stays");
            } else if request.is_some() {
                wait = rng.random_range(0..5);
            }
            assert!(request.is_none() || serving.is_none(), "one request at a time");
            standing = request.filter(|_| !takes);
            let replies = m.reply();
            for (i, (client, owed)) in clients.iter().zip(&mut owed).enumerate() {
                assert_eq!(replies[i], reply.filter(|r| usize::from(*r >> 15) == i).map(|r| !r), "to whom it belongs");
                if let Some(r) = offered[i] {
                    assert_eq!(replies[i], Some(r), "what is offered stays");
                }
                offered[i] = replies[i].filter(|_| !client.takes);
                if let Some(r) = replies[i].filter(|_| client.takes) {
                    assert_eq!(*owed, Some(!r), "the answer to what was asked");
                    assert!(m.reply_taken());
                    *owed = None;
                    serving = None;
                    done[i] += 1;
                }
            }
            if let Some(r) = request.filter(|_| takes) {
                let i = usize::from(r >> 15);
                assert!(m.taken()[i] && clients[i].request == Some(r));
                clients[i].request = None;
                count[i] = (count[i] + 1) & 0x7fff;
                owed[i] = Some(r);
                serving = Some(r);
                wait = rng.random_range(1..6);
                passed[i] = 0;
                passed[1 - i] += u32::from(clients[1 - i].request.is_some());
                assert!(passed[1 - i] <= 1, "at most one of the other goes first");
            }
            assert!(!(m.taken()[0] && m.taken()[1]));
            m.tick();
        }
        passed = [0; 2];
    }
    assert!(done[0] > 300 && done[1] > 300, "{done:?}");
}

#[test]
fn each_client_of_the_port_database_gets_its_own_replies() {
    let seed = bench::seed("chan_share");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    random(&mut port_share::Model::new(seed), &mut rng, false);
}

#[test]
fn each_client_of_the_neighbour_service_gets_its_own_answers() {
    let seed = bench::seed("chan_share");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    random(&mut neighbor_share::Model::new(seed), &mut rng, true);
    random(&mut neighbor_share::Model::new(seed), &mut rng, false);
}

#[test]
fn all_fields_go_through() {
    let mut m = port_share::Model::new(bench::seed("chan_share"));
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    m.b_req_valid.set(true);
    m.b_req_data_op.set(3);
    m.b_req_data_addr.set(0xc000_0201);
    m.b_req_data_port.set(4420);
    m.b_req_data_last.set(4421);
    m.b_req_data_slot.set(77);
    m.req_ready.set(true);
    m.eval();
    let request = (m.req_data_op.get(), m.req_data_addr.get(), m.req_data_port.get(), m.req_data_last.get(), m.req_data_slot.get());
    assert_eq!(request, (3, 0xc000_0201, 4420, 4421, 77));
    m.tick();
    m.b_req_valid.set(false);
    m.rsp_valid.set(true);
    m.rsp_data_status.set(2);
    m.rsp_data_port.set(4420);
    m.rsp_data_listener.set(5);
    m.rsp_data_user.set(6);
    m.rsp_data_shared.set(1);
    m.eval();
    assert!(m.b_rsp_valid.get() && !m.a_rsp_valid.get());
    let r = (
        m.b_rsp_data_status.get(),
        m.b_rsp_data_port.get(),
        m.b_rsp_data_listener.get(),
        m.b_rsp_data_user.get(),
        m.b_rsp_data_shared.bit(),
    );
    assert_eq!(r, (2, 4420, 5, 6, true));
}
