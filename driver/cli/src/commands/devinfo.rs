// SPDX-License-Identifier: MIT OR Apache-2.0
//! `devinfo`: the fields and the look of `ibv_devinfo -v`. Of an adapter that moves no data the limits of work requests are left out.
use crate::{
    device::{Device as Way, DeviceArgs},
    output::line,
    Outcome,
};
use ironwarp_abi::{reg::status_bits, PCI_DEVICE, PCI_VENDOR};
use ironwarp_rnic::{Device, DeviceInfo};
use ironwarp_soft::{Soft, SoftConfig};
use ironwarp_verbs::{Device as _, DeviceAttr, PortAttr, PortState};
use ironwarp_wire::MacAddr;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    device: DeviceArgs,
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let rows = if args.device.device == Way::Soft {
        let soft = Soft::new(SoftConfig::default());
        rows_of_verbs(&soft.query(), &soft.query_port())
    } else {
        rows(&Device::open(args.device.open()?)?.info()?)
    };
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

/// In the notation of ibv_devinfo.
fn guid_of(number: u64) -> String {
    let text = format!("{number:016x}");
    [&text[..4], &text[4..8], &text[8..12], &text[12..]].join(":")
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
    let mut rows = vec![
        (0, "hca_id", Value::Text(info.location.clone())),
        (1, "transport", Value::Named("iWARP", 1)),
        (1, "fw_ver", Value::Text(format!("{}.{}", info.version.0, info.version.1))),
        (1, "node_guid", Value::Text(guid(info.mac))),
        (1, "sys_image_guid", Value::Text(guid(info.mac))),
        (1, "vendor_id", Value::Hex(PCI_VENDOR.into())),
        (1, "vendor_part_id", Value::Number(PCI_DEVICE.into())),
        (1, "hw_ver", number(info.version.0.into())),
        (1, "phys_port_cnt", Value::Number(1)),
    ];
    rows.extend(info.attr().iter().flat_map(limits));
    rows.extend([
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
    ]);
    rows
}

/// Of the verbs.
fn limits(device: &DeviceAttr) -> Vec<(usize, &'static str, Value)> {
    let number = |n: u32| Value::Number(n.into());
    vec![
        (1, "max_mr_size", Value::Hex(device.max_mr_size)),
        (1, "max_qp", number(device.max_qp)),
        (1, "max_qp_wr", number(device.max_qp_wr)),
        (1, "max_sge", number(device.max_sge)),
        (1, "max_inline_data", number(device.max_inline_data)),
        (1, "max_cq", number(device.max_cq)),
        (1, "max_cqe", number(device.max_cqe)),
        (1, "max_mr", number(device.max_mr)),
        (1, "max_pd", number(device.max_pd)),
        (1, "max_qp_rd_atom", number(device.max_qp_rd_atom.into())),
        (1, "max_qp_init_rd_atom", number(device.max_qp_init_rd_atom.into())),
        (1, "atomic_cap", Value::Named("ATOMIC_NONE", 0)),
    ]
}

/// What any device of the verbs says of itself.
fn rows_of_verbs(device: &DeviceAttr, port: &PortAttr) -> Vec<(usize, &'static str, Value)> {
    let number = |n: u32| Value::Number(n.into());
    let mut rows = vec![
        (0, "hca_id", Value::Text(device.name.clone())),
        (1, "transport", Value::Named("iWARP", 1)),
        (1, "fw_ver", Value::Text(device.fw_ver.clone())),
        (1, "node_guid", Value::Text(guid_of(device.node_guid))),
        (1, "sys_image_guid", Value::Text(guid_of(device.node_guid))),
        (1, "vendor_id", Value::Hex(device.vendor_id.into())),
        (1, "vendor_part_id", number(device.vendor_part_id)),
        (1, "hw_ver", Value::Hex(device.hw_ver.into())),
        (1, "phys_port_cnt", Value::Number(1)),
    ];
    rows.extend(limits(device));
    rows.extend([
        (2, "port", Value::Number(1)),
        (3, "state", if port.state == PortState::Active { Value::Named("PORT_ACTIVE", 4) } else { Value::Named("PORT_DOWN", 1) }),
        (3, "max_mtu", mtu_class(port.max_mtu)),
        (3, "active_mtu", mtu_class(port.active_mtu)),
        (3, "link_mtu", number(port.active_mtu)),
        (3, "link_layer", Value::Text("Ethernet".into())),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guid_is_the_eui_64_of_the_mac() {
        assert_eq!(guid("02:1b:ad:00:00:01".parse().unwrap()), "001b:adff:fe00:0001");
        assert_eq!(guid_of(0x001b_adff_fe00_0001), "001b:adff:fe00:0001");
    }
}
