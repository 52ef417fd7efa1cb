// SPDX-License-Identifier: MIT OR Apache-2.0
//! `devinfo`: the fields and the look of `ibv_devinfo -v`. What does not exist yet (QPs, MRs ...) is left out.
use crate::{device::DeviceArgs, output::line, Outcome};
use ironwarp_abi::{reg::status_bits, PCI_DEVICE, PCI_VENDOR};
use ironwarp_rnic::{Device, DeviceInfo};
use ironwarp_wire::MacAddr;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArgs,
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let info = Device::open(args.device.open()?)?.info()?;
    let rows = rows(&info);
    if json {
        let map: serde_json::Map<_, _> = rows.into_iter().map(|(_, name, value)| (name.to_owned(), value.json())).collect();
        line(serde_json::Value::Object(map).to_string());
    } else {
        for (depth, name, value) in rows {
            let tabs = "\t".repeat(depth);
            let label = format!("{name}:");
            line(format!("{tabs}{label:<24}{}", value.text()));
        }
    }
    Ok(true)
}

enum Value {
    Text(String),
    Number(u64),
    /// Shown in hexadecimal.
    Hex(u64),
    /// Name and number, as in `iWARP (1)`.
    Named(&'static str, u64),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(n) => n.to_string(),
            Value::Hex(n) => format!("{n:#06x}"),
            Value::Named(name, n) => format!("{name} ({n})"),
        }
    }
    fn json(&self) -> serde_json::Value {
        match self {
            Value::Text(text) => text.clone().into(),
            Value::Number(n) | Value::Hex(n) => (*n).into(),
            Value::Named(name, _) => (*name).into(),
        }
    }
}

/// EUI-64 of a MAC address, in the notation of ibv_devinfo.
fn guid(mac: MacAddr) -> String {
    if mac == MacAddr::default() {
        // no driver has given the adapter an address
        return "0000:0000:0000:0000".into();
    }
    let [a, b, c, d, e, f] = mac.0;
    format!("{:02x}{b:02x}:{c:02x}ff:fe{d:02x}:{e:02x}{f:02x}", a ^ 2)
}

/// The verbs' MTU classes: the largest that fits into the link's MTU beside the headers of TCP and iWARP.
fn mtu_class(octets: u32) -> Value {
    match octets {
        4200.. => Value::Named("4096", 5),
        2148.. => Value::Named("2048", 4),
        1124.. => Value::Named("1024", 3),
        612.. => Value::Named("512", 2),
        _ => Value::Named("256", 1),
    }
}

fn rows(info: &DeviceInfo) -> Vec<(usize, &'static str, Value)> {
    let number = |n: u32| Value::Number(n.into());
    let enabled = info.status & status_bits::ENABLED != 0;
    vec![
        (0, "hca_id", Value::Text(info.location.clone())),
        (1, "transport", Value::Named("iWARP", 1)),
        (1, "fw_ver", Value::Text(format!("{}.{}", info.version.0, info.version.1))),
        (1, "node_guid", Value::Text(guid(info.mac))),
        (1, "sys_image_guid", Value::Text(guid(info.mac))),
        (1, "vendor_id", Value::Hex(PCI_VENDOR.into())),
        (1, "vendor_part_id", Value::Number(PCI_DEVICE.into())),
        (1, "hw_ver", number(info.version.0.into())),
        (1, "phys_port_cnt", Value::Number(1)),
        (1, "max_listeners", number(info.max_listeners.into())),
        (1, "listeners_live", number(info.listeners_live)),
        (1, "max_connections", number(info.max_connections.into())),
        (1, "connections_live", number(info.connections_live)),
        (1, "max_ip_addresses", number(info.max_addresses.into())),
        (1, "max_neighbors", number(info.max_neighbors.into())),
        (1, "port_range", Value::Text(format!("{}-{}", info.port_range.0, info.port_range.1))),
        (1, "time_us", number(info.time_us)),
        (1, "core_cycles", number(info.cycles)),
        (2, "port", Value::Number(1)),
        // the adapter cannot see its cable: it is active when a driver has started it
        (3, "state", if enabled { Value::Named("PORT_ACTIVE", 4) } else { Value::Named("PORT_DOWN", 1) }),
        (3, "max_mtu", mtu_class(info.max_mtu)),
        (3, "active_mtu", mtu_class(info.mtu)),
        (3, "link_mtu", number(info.mtu)),
        (3, "mac", Value::Text(info.mac.to_string())),
        (3, "link_layer", Value::Text("Ethernet".into())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guid_is_the_eui_64_of_the_mac() {
        assert_eq!(guid("02:1b:ad:00:00:01".parse().unwrap()), "001b:adff:fe00:0001");
    }
}
