// SPDX-License-Identifier: MIT OR Apache-2.0
//! `selftest`: every command of the adapter once, with its refusals, by interrupt and by looking; what a guest runs over the kernel's
//! vfio. One line a step, then PASS or FAIL.
use crate::{
    device::AttachArgs,
    output::{line, mark},
    Failure, Outcome,
};
use ironwarp_abi::{irq, reg::status_bits, Command, Counter, Opcode};
use ironwarp_rnic::{Bus, Config, Context, Error, Event, Listener, Refusal, Rnic};
use serde_json::json;
use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    attach: AttachArgs,
}

/// Address of the test; nothing is sent to it.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Ports that are reserved.
const RESERVED: (u16, u16) = (8080, 8089);
/// NOPs in one burst: more than the command ring of the test holds.
const BURST: usize = 100;

struct Test<B: Bus> {
    rnic: Rnic<B>,
    listener: Option<Listener>,
    timeout: Duration,
    /// Vectors were taken from the bus: they came.
    interrupts: u32,
}

type Step<B> = (&'static str, fn(&mut Test<B>) -> Result<String, Failure>);

pub fn run(args: &Args, json: bool) -> Outcome {
    let start = Instant::now();
    let bus = args.attach.device.open()?;
    let location = bus.describe();
    // small rings, so that they wrap
    let config = Config { cmd_log2: 4, evt_log2: 4, port_range: (50_000, 50_999), ..args.attach.config() };
    let steps = match Rnic::attach(bus, config) {
        Ok(rnic) => {
            show(json, "attach", &Ok(location.clone()), start.elapsed());
            run_steps(rnic, args.attach.device.timeout(), json)
        }
        Err(e) => {
            show(json, "attach", &Err(e.to_string()), start.elapsed());
            vec![false]
        }
    };
    let good = steps.iter().all(|s| *s);
    if json {
        line(
            json!({ "result": if good { "PASS" } else { "FAIL" }, "device": location, "seconds": start.elapsed().as_secs_f64() })
                .to_string(),
        );
    } else {
        line(format!("{}: {} steps on {location} in {:.2?}", if good { "PASS" } else { "FAIL" }, steps.len(), start.elapsed()));
    }
    Ok(good)
}

fn show(json: bool, name: &str, result: &Result<String, String>, took: Duration) {
    let detail = result.as_ref().unwrap_or_else(|e| e);
    if json {
        line(json!({ "step": name, "ok": result.is_ok(), "detail": detail, "microseconds": took.as_micros() as u64 }).to_string());
    } else {
        line(format!("{} {name:<46} {detail} ({took:.1?})", mark(result.is_ok())));
    }
}

fn run_steps<B: Bus>(rnic: Rnic<B>, timeout: Duration, json: bool) -> Vec<bool> {
    let steps: &[Step<B>] = &[
        ("device", device),
        ("NOP, answered by MSI-X", nop),
        ("LISTEN on port 0 -> LISTEN_REPLY by MSI-X", listen),
        ("LISTEN on the same port: in use", port_taken),
        ("RESERVE, then LISTEN there: reserved", port_reserved),
        ("UNLISTEN -> FREED by MSI-X", unlisten),
        ("UNLISTEN with the stale handle: refused", stale),
        ("LISTEN on the freed port", listen_again),
        ("addresses: add, again, delete, again", addresses),
        ("unknown opcode: refused", unknown_opcode),
        ("more commands than the ring holds", burst),
        ("events by looking, without interrupts", by_looking),
        ("counters add up", counters),
    ];
    let mut test = Test { rnic, listener: None, timeout, interrupts: 0 };
    let mut results = vec![true];
    for (name, step) in steps {
        let start = Instant::now();
        let result = step(&mut test).map_err(|e| e.to_string());
        show(json, name, &result, start.elapsed());
        results.push(result.is_ok());
    }
    results
}

impl<B: Bus> Test<B> {
    /// The reply to `context`, which must be announced by the event vector.
    fn by_interrupt(&mut self, context: Context) -> Result<Event, Failure> {
        if self.rnic.config().interrupts {
            if self.rnic.wait_causes(1 << irq::EVENT, self.timeout)? == 0 {
                return Err(format!("no interrupt of the event ring within {:?}", self.timeout).into());
            }
            self.interrupts += 1;
        }
        let event = self.rnic.wait_reply(context, self.timeout)?;
        event.ok_or_else(|| format!("no reply within {:?}", self.timeout).into())
    }
    fn live(&self) -> Result<Listener, Failure> {
        self.listener.ok_or_else(|| "needs the listener of an earlier step".into())
    }
}

fn expect_refusal<T: std::fmt::Debug>(result: Result<T, Error>, expected: Refusal) -> Result<String, Failure> {
    match result {
        Err(Error::Refused { refusal, .. }) if refusal == expected => Ok(format!("status {}", refusal.status())),
        Err(e) => Err(format!("another error: {e}").into()),
        Ok(value) => Err(format!("granted: {value:?}").into()),
    }
}

fn device<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let info = test.rnic.devinfo()?;
    Ok(format!("ABI {}.{}, {} listeners, MTU up to {}", info.version.0, info.version.1, info.max_listeners, info.max_mtu))
}

fn nop<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let context = test.rnic.post_nop()?;
    match test.by_interrupt(context)? {
        Event::Done { .. } => Ok(String::new()),
        other => Err(format!("{other:?}").into()),
    }
}

fn listen<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let context = test.rnic.post_listen(Ipv4Addr::UNSPECIFIED, 0, 8)?;
    match test.by_interrupt(context)? {
        Event::Listening { listener, .. } => {
            let (first, last) = test.rnic.config().port_range;
            if !(first..=last).contains(&listener.port) {
                return Err(format!("port {} is outside {first}..={last}", listener.port).into());
            }
            test.listener = Some(listener);
            Ok(format!("port {}, handle {:#x}", listener.port, listener.handle.0))
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn port_taken<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let port = test.live()?.port;
    expect_refusal(test.rnic.create_listen(Ipv4Addr::UNSPECIFIED, port, 8), Refusal::AddressInUse { port })
}

fn port_reserved<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let (first, last) = RESERVED;
    test.rnic.reserve_ports(first, last)?;
    let port = first + 1;
    let detail = expect_refusal(test.rnic.create_listen(Ipv4Addr::UNSPECIFIED, port, 8), Refusal::Reserved { port })?;
    test.rnic.unreserve_ports(first, last)?;
    let listener = test.rnic.create_listen(Ipv4Addr::UNSPECIFIED, port, 8)?;
    test.rnic.destroy_listen(listener)?;
    Ok(format!("{detail}; granted when given back"))
}

fn unlisten<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let listener = test.live()?;
    // what earlier steps waited for by looking may have left its vector raised
    test.rnic.clear(1 << irq::EVENT)?;
    let context = test.rnic.post_unlisten(&listener)?;
    match test.by_interrupt(context)? {
        Event::Freed { handle, .. } if handle == listener.handle => Ok(format!("handle {:#x}", handle.0)),
        other => Err(format!("{other:?}").into()),
    }
}

fn stale<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let handle = test.live()?.handle;
    let before = test.rnic.device().counter(Counter::StaleHandles)?;
    let event = test.rnic.call_raw(Command { opcode: Opcode::Unlisten as u8, handle, ..Command::default() })?;
    let counted = test.rnic.device().counter(Counter::StaleHandles)? - before;
    match event {
        Event::Refused { refusal: Refusal::NoEntry, .. } if counted == 1 => Ok(format!("status {}, counted", Refusal::NoEntry.status())),
        Event::Refused { refusal: Refusal::NoEntry, .. } => Err(format!("staleHandles moved by {counted}").into()),
        other => Err(format!("{other:?}").into()),
    }
}

fn listen_again<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let old = test.live()?;
    // a listener's address is one of the adapter's own
    test.rnic.address_add(ADDRESS, 24, None)?;
    let listener = test.rnic.create_listen(ADDRESS, old.port, 8)?;
    test.listener = Some(listener);
    test.rnic.destroy_listen(listener)?;
    test.rnic.address_delete(ADDRESS)?;
    if listener.handle == old.handle {
        return Err("the new listener has the handle of the old one".into());
    }
    Ok(format!("port {}, handle {:#x}", listener.port, listener.handle.0))
}

fn addresses<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    test.rnic.address_add(ADDRESS, 24, None)?;
    expect_refusal(test.rnic.address_add(ADDRESS, 24, None), Refusal::Exists)?;
    test.rnic.address_delete(ADDRESS)?;
    expect_refusal(test.rnic.address_delete(ADDRESS), Refusal::NoEntry)?;
    Ok(String::new())
}

fn unknown_opcode<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    match test.rnic.call_raw(Command { opcode: 0xee, ..Command::default() })? {
        Event::Refused { refusal: Refusal::UnknownOpcode, .. } => Ok(format!("status {}", Refusal::UnknownOpcode.status())),
        other => Err(format!("{other:?}").into()),
    }
}

fn burst<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let mut waiting = std::collections::VecDeque::new();
    let (mut posted, mut full) = (0, 0);
    while posted < BURST || !waiting.is_empty() {
        if posted < BURST {
            match test.rnic.post_nop() {
                Ok(context) => {
                    waiting.push_back(context);
                    posted += 1;
                    continue;
                }
                Err(Error::CommandRingFull) => full += 1,
                Err(e) => return Err(e.into()),
            }
        }
        let event = test.rnic.wait_event(test.timeout)?.ok_or("a reply is missing")?;
        if event.context() != waiting.pop_front() {
            return Err(format!("out of order: {event:?}").into());
        }
    }
    Ok(format!("{BURST} NOPs answered in order; the ring was full {full} times"))
}

fn by_looking<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let context = test.rnic.post_nop()?;
    let start = Instant::now();
    let mut looks = 0u64;
    loop {
        looks += 1;
        match test.rnic.poll_event()? {
            Some(event) if event.context() == Some(context) => return Ok(format!("{looks} looks")),
            Some(other) => return Err(format!("{other:?}").into()),
            None if start.elapsed() > test.timeout => return Err("no reply".into()),
            // a register read lets time pass in every kind of model
            None => drop(test.rnic.device().read(ironwarp_abi::reg::STATUS)?),
        }
    }
}

fn counters<B: Bus>(test: &mut Test<B>) -> Result<String, Failure> {
    let mut get = |counter| test.rnic.device().counter(counter);
    let (created, destroyed) = (get(Counter::ListenCreated)?, get(Counter::ListenDestroyed)?);
    let (done, unknown) = (get(Counter::CmdDone)?, get(Counter::CmdUnknown)?);
    let (read_errors, write_errors) = (get(Counter::DmaReadErrors)?, get(Counter::DmaWriteErrors)?);
    let info = test.rnic.devinfo()?;
    let odd: u64 = test.rnic.oddities().rows().iter().map(|row| row.1).sum();
    let status = info.status & (status_bits::DMA_READ_ERROR | status_bits::DMA_WRITE_ERROR | status_bits::CMD_STOPPED);
    let good = created == destroyed && created == 3 && info.listeners_live == 0 && unknown == 1;
    if !good || read_errors + write_errors + odd != 0 || status != 0 {
        return Err(format!(
            "listeners made {created}, freed {destroyed}, live {}; unknown opcodes {unknown}; DMA errors {read_errors} and {write_errors}; \
             odd events {odd}; STATUS {:#x}",
            info.listeners_live, info.status
        )
        .into());
    }
    Ok(format!("{done} commands done, {created} listeners made and freed, {} by interrupt", test.interrupts))
}
