// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stats`: counters by name. Of an adapter in the look of `ethtool -S`: a reset clears them, and a driver that detaches resets. Of the
//! host-integrated devices of this user in that of `rdma statistic`, the sum over their processes.
use super::show::idle_soft;
use crate::{
    control,
    device::{Device as Way, DeviceArgs},
    output::line,
    Failure, Outcome,
};
use ironwarp_rnic::{Bus, Device, Rnic};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArgs,
    /// Leave out counters that are 0.
    #[arg(long)]
    nonzero: bool,
    /// Say what each counter means.
    #[arg(long)]
    explain: bool,
}

/// Sums of all processes' counters, in their order.
fn of_soft(args: &Args, json: bool) -> Outcome {
    let mut processes = control::ask_soft()?;
    // their names, and zeros
    processes.push(idle_soft());
    let mut sums: Vec<(String, u64)> = Vec::new();
    for process in &processes {
        for (name, value) in process["stats"].as_object().into_iter().flatten() {
            let value = value.as_u64().unwrap_or(0);
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name.clone(), value)),
            }
        }
    }
    sums.retain(|(_, value)| !args.nonzero || *value != 0);
    if json {
        let map: serde_json::Map<_, _> = sums.into_iter().map(|(name, value)| (name, value.into())).collect();
        line(serde_json::Value::Object(map).to_string());
    } else {
        line(format!("link {}/1", processes.last().and_then(|p| p["device"].as_str()).unwrap_or_default()));
        sums.iter().for_each(|(name, value)| line(format!("    {name} {value}")));
    }
    Ok(true)
}

pub fn run(args: &Args, json: bool) -> Outcome {
    if args.device.device == Way::Soft {
        return of_soft(args, json);
    }
    let counters = Device::open(args.device.open()?)?.stats()?;
    let rows = counters.into_iter().filter(|(_, value)| !args.nonzero || *value != 0);
    if json {
        let map: serde_json::Map<_, _> = rows.map(|(c, value)| (c.name().to_owned(), value.into())).collect();
        line(serde_json::Value::Object(map).to_string());
    } else {
        line("adapter statistics:");
        for (counter, value) in rows {
            let text = format!("     {}: {value}", counter.name());
            line(if args.explain { format!("{text:<40} {}", counter.doc()) } else { text });
        }
    }
    Ok(true)
}

/// Counters of adapter and driver that moved: what a command shows at its end.
pub fn moved<B: Bus>(rnic: &mut Rnic<B>) -> Result<Vec<(&'static str, u64)>, Failure> {
    let mut rows: Vec<_> = rnic.stats()?.into_iter().map(|(counter, value)| (counter.name(), value)).collect();
    rows.extend(rnic.oddities().rows());
    rows.retain(|row| row.1 != 0);
    Ok(rows)
}

/// Shows them.
pub fn show_moved<B: Bus>(rnic: &mut Rnic<B>, json: bool) -> Result<(), Failure> {
    let moved = moved(rnic)?;
    if json {
        let map: serde_json::Map<_, _> = moved.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        line(serde_json::json!({ "event": "stats", "counters": map }).to_string());
    } else {
        moved.iter().for_each(|(name, value)| line(format!("     {name}: {value}")));
    }
    Ok(())
}
