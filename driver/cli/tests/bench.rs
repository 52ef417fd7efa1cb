// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ironwarp bench`: every figure is there, adds up, and is the same each time. How good they are is not judged here.
#![cfg(feature = "sim")]
use serde_json::Value;
use std::process::Command;

/// The report of a short run with so many large messages, with the digest of all that passed the ports.
fn report(messages: &str) -> Value {
    let directory = tempfile::tempdir().expect("temporary directory");
    let out = directory.path().to_str().expect("UTF-8");
    let output = Command::new(env!("CARGO_BIN_EXE_ironwarp"))
        .args(["--json", "bench", "--set-ups", "4", "--host-set-ups", "0", "--messages", messages, "--out", out])
        .env_remove("RUST_LOG")
        .output()
        .expect("ironwarp starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let file = std::fs::read_to_string(directory.path().join("report/bench.json")).expect("the report");
    let (printed, written): (Value, Value) = (serde_json::from_str(&text).expect("JSON"), serde_json::from_str(&file).expect("JSON"));
    assert_eq!(printed, written);
    written
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

fn sum(stages: &Value, which: impl Fn(&str) -> bool) -> f64 {
    list(stages).iter().filter(|s| which(s["of"].as_str().expect("text"))).map(|s| number(&s["cycles"])).sum()
}

#[test]
fn the_report_has_every_figure_they_add_up_and_equal_seeds_give_equal_ones() {
    let first = report("0");
    assert_eq!(first, report("0"));
    let report = first;
    let rows = list(&report["latency"]);
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().expect("text")).collect();
    for begin in ["LISTEN", "CONNECT", "DISCONNECT", "ABORT", "Send", "Write", "Read"] {
        assert!(names.iter().any(|name| name.starts_with(begin)), "{begin}: {names:?}");
    }
    assert_eq!(rows.iter().filter(|row| row["budget"].is_object()).count(), 6, "{names:?}");
    for row in rows {
        for turnaround in ["turnaround_0", "turnaround_1000"] {
            let figures = &row[turnaround];
            let stages = &figures["stages"];
            assert_eq!(number(&figures["hardware_cycles"]), sum(stages, |of| of != "host"), "{row}");
            assert_eq!(number(&figures["host_cycles"]), sum(stages, |of| of == "host"), "{row}");
            assert_eq!(number(&figures["wire_cycles"]), sum(stages, |of| of == "wire"), "{row}");
            assert!(number(&figures["hardware_cycles"]) > number(&figures["wire_cycles"]) + number(&figures["dma_read_cycles"]), "{row}");
        }
        // what the host takes is not the hardware's: no more than the phases of scans may differ
        let [quick, slow] = ["turnaround_0", "turnaround_1000"].map(|t| number(&row[t]["hardware_cycles"]));
        assert!((quick - slow).abs() < 64.0, "{row}");
    }
    let in_flight: Vec<_> = list(&report["set_ups"]["sustained"]).iter().map(|run| number(&run["in_flight"])).collect();
    assert!([1.0, 8.0, 32.0].iter().all(|n| in_flight.contains(n)), "{in_flight:?}");
    for run in list(&report["set_ups"]["sustained"]) {
        let each = number(&run["cycles_per_set_up"]);
        assert!((each * number(&run["per_second_at_62_5_mhz"]) - 62.5e6).abs() < 62.5e6 / 100.0, "{run}");
        assert!((each * number(&run["per_second_at_156_25_mhz"]) - 156.25e6).abs() < 156.25e6 / 100.0, "{run}");
        // an engine cannot send faster than a beat a cycle
        assert!(number(&run["a"]["wire_beats_out"]) < each && number(&run["b"]["wire_beats_out"]) < each, "{run}");
    }
    let parts = list(&report["set_ups"]["parts"]);
    assert!(parts.len() >= 9 && parts.iter().all(|part| number(&part["cycles_each"]) > 0.0), "{parts:?}");
}

#[test]
fn the_report_tells_what_data_costs_beside_what_the_line_could_carry() {
    let report = report("4");
    let flows = list(&report["data"]["flows"]);
    assert_eq!(flows.iter().filter(|flow| list(&flow["directions"]).len() == 2).count(), 5, "{flows:?}");
    for flow in flows {
        for direction in list(&flow["directions"]) {
            let (cycles, share) = (number(&direction["cycles_per_message"]), number(&direction["share"]));
            // nothing is faster than the line, but for what stands in buffers
            assert!(share > 1.0 && share < 105.0, "{flow}");
            assert!((cycles * share / 100.0 / number(&flow["line_cycles_per_message"]) - 1.0).abs() < 0.01, "{flow}");
        }
    }
    for half in list(&report["data"]["halves"]) {
        let [line, sender, receiver] =
            ["line_cycles_per_frame", "sender_cycles_per_frame", "receiver_cycles_per_frame"].map(|name| number(&half[name]));
        assert!(sender >= line && receiver >= 0.9 * line, "{half}");
    }
}

/// The host's part is there for both providers, by kind, and says that the adapter takes the work away.
#[test]
fn the_hosts_instructions_of_a_set_up_are_counted_on_both_providers() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let out = directory.path().to_str().expect("UTF-8");
    let output = Command::new(env!("CARGO_BIN_EXE_ironwarp"))
        .args(["--json", "bench", "--set-ups", "1", "--host-set-ups", "4", "--messages", "0", "--out", out])
        .env_remove("RUST_LOG")
        .output()
        .expect("ironwarp starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let host = &report["host_per_set_up"];
    assert_eq!(host["set_ups"], 4);
    for provider in ["offloaded", "host_integrated"] {
        for end in ["client", "server"] {
            let cost = &host[provider][end];
            let [instructions, calls, bus, writes] =
                ["user_instructions", "system_calls", "simulated_bus_instructions", "register_writes"].map(|name| number(&cost[name]));
            // a set-up is neither nothing nor the work of a second
            assert!((1e3..1e7).contains(&instructions) && (1.0..1000.0).contains(&calls), "{provider} {end}: {cost}");
            let adapter = provider == "offloaded";
            assert_eq!((bus > 0.0, writes >= 1.0), (adapter, adapter), "{provider} {end}: {cost}");
            let sum: f64 = cost["by_name"].as_object().expect("by name").values().map(number).sum();
            assert!((sum - calls).abs() < 1e-6, "{cost}");
            let sockets = ["sendto", "accept4", "connect"].iter().any(|name| cost["by_name"][name].is_number());
            assert_ne!(sockets, adapter, "the host's TCP is called by the one, not by the other: {cost}");
        }
    }
    for ratio in ["user_ratio", "system_call_ratio"] {
        assert!(number(&host[ratio]) > 0.0, "{host}");
    }
    assert_eq!((number(&host["budget"]["first"]), number(&host["budget"]["goal"])), (0.25, 0.05));
}
