// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate and latency of a soft pair over the host's loopback: `cargo run --release -p ironwarp-soft --example speed`.
#[path = "../tests/common/mod.rs"]
mod common;
use common::{config, pair, Side, ALL};
use ironwarp_verbs::*;
use std::time::Instant;

fn main() {
    for crc in [true, false] {
        let mut config = config();
        config.mpa.crc = crc;
        let (a, b, _listener) = pair(Side::sized(config.clone(), 4 << 20, ALL), Side::sized(config, 4 << 20, ALL), 16);
        let (addr, rkey) = (b.mr.addr(), b.mr.rkey());
        for (name, op) in [
            ("write", SendOp::Write { remote_addr: addr, rkey }),
            ("read", SendOp::Read { remote_addr: addr, rkey }),
            ("send", SendOp::Send),
        ] {
            for size in [4096usize, 65536, 1 << 20] {
                let count = ((1 << 30) / size).min(20_000) as u64;
                let start = Instant::now();
                let mut done = 0;
                for n in 0..count {
                    if op == SendOp::Send {
                        b.recv(n, 0, size);
                    }
                    a.send(n, op, 0, size);
                    if n >= 16 {
                        a.sent(done);
                        if op == SendOp::Send {
                            b.received(done, size);
                        }
                        done += 1;
                    }
                }
                while done < count {
                    a.sent(done);
                    if op == SendOp::Send {
                        b.received(done, size);
                    }
                    done += 1;
                }
                // all of it has arrived
                a.send(0, SendOp::Read { remote_addr: addr, rkey }, 0, 0);
                a.sent(0);
                let rate = (count * size as u64) as f64 / start.elapsed().as_secs_f64() / 1e9;
                println!("crc {crc} {name} {size} octets: {rate:.2} GB/s");
            }
        }
        let rounds = 5000;
        let start = Instant::now();
        for n in 0..rounds {
            b.recv(n, 0, 64);
            a.recv(n, 0, 64);
            a.send(n, SendOp::Send, 0, 64);
            b.received(n, 64);
            b.send(n, SendOp::Send, 0, 64);
            a.received(n, 64);
            a.sent(n);
            b.sent(n);
        }
        println!("crc {crc} send of 64 octets: {:.1} us half a round trip", start.elapsed().as_secs_f64() * 1e6 / rounds as f64 / 2.0);
    }
}
