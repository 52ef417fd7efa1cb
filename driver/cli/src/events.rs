// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events for people and for programs.
use crate::output::line;
use ironwarp_rnic::{Connection, Event, Refusal, StartUp};
use serde_json::{json, Value};

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|o| format!("{o:02x}")).collect()
}

/// `NAME` of a connection's event as the tables of the ABI have it; none for other events.
pub fn name(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Connecting { .. } => "CONNECTING",
        Event::ConnectRequest { .. } => "CONNECT_REQUEST",
        Event::ConnectReply { .. } => "CONNECT_REPLY",
        Event::Established { .. } => "ESTABLISHED",
        Event::Disconnect { .. } => "DISCONNECT",
        Event::Close { .. } => "CLOSE",
        Event::ConnectionFreed { .. } => "FREED",
        _ => return None,
    })
}

fn result_of(event: &Event) -> Option<Result<(), Refusal>> {
    match event {
        Event::ConnectReply { result, .. } | Event::Close { result, .. } => Some(*result),
        _ => None,
    }
}

fn start_of(event: &Event) -> Option<&StartUp> {
    match event {
        Event::ConnectRequest { start, .. } | Event::ConnectReply { start, .. } | Event::Established { start, .. } => Some(start),
        _ => None,
    }
}

fn connection(connection: Connection) -> Value {
    json!({ "handle": connection.handle.0, "local": connection.local.to_string(), "remote": connection.remote.to_string() })
}

/// One JSON object.
pub fn json(event: &Event) -> Value {
    let (Some(name), Some(of)) = (name(event), event.connection()) else {
        return match event {
            Event::Async { code, handle, terminate } => {
                json!({ "event": "async", "code": code, "handle": handle.0, "terminate": terminate })
            }
            other => json!({ "event": format!("{other:?}") }),
        };
    };
    let mut value = json!({ "event": name.to_lowercase(), "connection": connection(of) });
    if let Some(result) = result_of(event) {
        value["status"] = result.err().map_or(0, Refusal::status).into();
    }
    if let Some(start) = start_of(event) {
        value["start"] = json!({
            "revision": start.revision, "flags": start.flags, "own_ird": start.own_ird, "own_ord": start.own_ord,
            "peer_ird": start.peer_ird, "peer_ord": start.peer_ord, "private_data": hex(&start.private_data),
        });
    }
    value
}

/// Prints an event, as JSON or as text.
pub fn tell(event: &Event, as_json: bool) {
    line(if as_json { json(event).to_string() } else { text(event) });
}

/// One line.
pub fn text(event: &Event) -> String {
    let (Some(name), Some(of)) = (name(event), event.connection()) else { return format!("event: {event:?}") };
    let mut line = format!("{name:<16} {of}");
    match result_of(event) {
        Some(Err(why)) => line += &format!(": {why}"),
        Some(Ok(())) => line += ": status 0",
        None => {}
    }
    if let Some(start) = start_of(event) {
        if start.revision != 0 {
            line += &format!(", revision {}", start.revision);
        }
        if start.enhanced() {
            line += &format!(", IRD {} ORD {} (peer {} {})", start.own_ird, start.own_ord, start.peer_ird, start.peer_ord);
        }
        if !start.private_data.is_empty() {
            line += &format!(", {} octets of private data: {}", start.private_data.len(), printable(&start.private_data));
        }
    }
    line
}

fn printable(octets: &[u8]) -> String {
    match std::str::from_utf8(octets) {
        Ok(text) if text.chars().all(|c| !c.is_control()) => format!("{text:?}"),
        _ => hex(octets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironwarp_abi::{Handle, HandleKind};

    #[test]
    fn events_are_told_in_words_and_in_json() {
        let connection = Connection {
            handle: Handle::new(HandleKind::Connection, 3, 9),
            local: "192.0.2.1:4791".parse().unwrap(),
            remote: "192.0.2.2:1000".parse().unwrap(),
        };
        let start = StartUp { revision: 1, private_data: b"hi".to_vec(), ..StartUp::default() };
        let event = Event::ConnectReply { connection, result: Err(Refusal::Refused), start };
        let line = text(&event);
        assert!(line.starts_with("CONNECT_REPLY    192.0.2.1:4791 -> 192.0.2.2:1000: "), "{line}");
        assert!(line.ends_with(", revision 1, 2 octets of private data: \"hi\""), "{line}");
        let value = json(&event);
        assert_eq!((value["event"].as_str(), value["status"].as_i64()), (Some("connect_reply"), Some(-111)));
        assert_eq!(value["start"]["private_data"], "6869");
        assert_eq!(text(&Event::Disconnect { connection }), "DISCONNECT       192.0.2.1:4791 -> 192.0.2.2:1000");
        assert_eq!(printable(&[0, 255]), "00ff");
    }
}
