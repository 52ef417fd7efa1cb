// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stats`: counters by name, in the look of `ethtool -S`. A reset clears them, and a driver that detaches resets.
use crate::{device::DeviceArgs, output::line, Failure, Outcome};
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

pub fn run(args: &Args, json: bool) -> Outcome {
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
