// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask synth`: size of every block on ECP5 and its clock, alone and between registers; `xtask pnr`: the whole core, placed and routed.
//!
//! Sizes are of the block alone. For the clock a block stands between two shift registers, so that pins neither limit nor bend the
//! placement: what is measured is register to register, with registered neighbours. One seed; a full chip loses 20 to 35 %.
//! Results are kept in `build/synth/<block>` until the block's Verilog, the recipe or a tool changes.
use crate::tools::{self, fail, Error, Result};
use ironwarp_hdl::{
    catalog::CATALOG,
    elaborate::{Emitted, Port},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

/// What must be reached on every device, in MHz.
const TARGET_MHZ: f64 = 62.5;
/// Budget of the `ecp5` profile with data path.
const BUDGET_LUT4: u64 = 68_000;
const BUDGET_BRAM: u64 = 190;

/// What ABC does: its script `flow`, which tries hardest, without the step `&blut`, on which it fails in the core.
const MAPPING: &str = "+&scorr; &sweep;&dch -C 500;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &syn2 -m -R 10; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &sopb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &syn2 -m -R 10; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;&st; &syn2 -m -R 10; &dsdb;&unmap; &if {W} {D} {R} -v; &save; &load; &mfs;";

/// Mapped for size: ABC, whose delays are without most of the wires, has 6 ns to trade for area. Compares with a constant, and sums of up to four bits, are logic and not carry chains. Without the
/// multiplexers that join look-up tables (`-nowidelut`) a function of five or six inputs takes fewer of them, one after the other. The
/// `autoname` pass of `synth_ecp5` takes quadratic time; this is the same recipe without it.
const RECIPE: &str = "scratchpad -set abc9.D 6000; scratchpad -set abc9.script \"{mapping}\"; read_verilog {file}; \
                      synth_ecp5 -top {top} -nowidelut -run begin:coarse; \
                      proc; flatten; opt_expr; opt_clean; opt -nodffe -nosdff; wreduce; peepopt; opt_clean; techmap -map +/cmp2softlogic.v; opt -full; \
                      synth_ecp5 -top {top} -nowidelut -run coarse:map_gates; techmap t:$alu r:Y_WIDTH<=4 %i; opt; \
                      synth_ecp5 -top {top} -nowidelut -run map_gates:check; \
                      hierarchy -check; tee -q -o {stat} stat -json; check -noinit; blackbox =A:whitebox; write_json {json}";

struct Device {
    /// Key in the report.
    key: &'static str,
    title: &'static str,
    arguments: &'static [&'static str],
}

const DEVICES: &[Device] = &[
    Device { key: "lfe5u_25f_6", title: "LFE5U-25F -6", arguments: &["--25k", "--package", "CABGA256", "--speed", "6"] },
    Device { key: "lfe5um5g_85f_8", title: "LFE5UM5G-85F -8", arguments: &["--um5g-85k", "--package", "CABGA554", "--speed", "8"] },
];

/// Cells of a block.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
struct Size {
    /// All look-up tables: logic, 2 a carry cell, 6 a distributed RAM.
    lut4: u64,
    ff: u64,
    /// DP16KD.
    bram: u64,
    /// TRELLIS_DPR16X4, in `lut4` as well.
    dpr16x4: u64,
    /// MULT18X18D.
    mult18: u64,
}

/// One row of the report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Figures {
    name: String,
    #[serde(flatten)]
    size: Size,
    /// MHz by device key; a device that is too small is not there.
    fmax_mhz: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Report<'a> {
    date: String,
    yosys: &'a str,
    nextpnr: &'a str,
    blocks: &'a [Figures],
}

/// Measures `names` (all when empty); writes the report and docs/synthesis.md when it was all.
pub fn run(names: &[String]) -> Result {
    let blocks: Vec<_> = tools::emit(names)?.into_iter().filter(|b| CATALOG.iter().any(|e| e.name == b.name && e.synthesize)).collect();
    let (yosys, nextpnr) = versions()?;
    let results = tools::in_pairs(&blocks, |b| {
        let figures = measure(b, &format!("{yosys}\n{nextpnr}"));
        if let Ok(f) = &figures {
            let clocks: Vec<_> = f.fmax_mhz.iter().map(|(k, v)| format!("{k} {v:.1} MHz")).collect();
            println!("synth: {}: {} LUT4, {} FF, {} block RAM, {}", f.name, f.size.lut4, f.size.ff, f.size.bram, clocks.join(", "));
        }
        figures
    });
    let figures = results.into_iter().collect::<Result<Vec<_>>>()?;
    if names.is_empty() {
        let report = Report { date: tools::today(), yosys: &yosys, nextpnr: &nextpnr, blocks: &figures };
        let text = serde_json::to_string_pretty(&report).map_err(|e| Error(e.to_string()))?;
        tools::write(&tools::build_dir("report")?.join("synth.json"), text + "\n")?;
        let projection = tools::read(&tools::root().join("tools/synth/projection.tsv"))?;
        tools::write(&tools::root().join("docs/synthesis.md"), document(&report, &projection)?)?;
    }
    let slow: Vec<_> = figures.iter().filter(|f| f.fmax_mhz.values().any(|mhz| *mhz < TARGET_MHZ)).map(|f| f.name.as_str()).collect();
    if slow.is_empty() {
        Ok(())
    } else {
        fail(format!("below {TARGET_MHZ} MHz: {}", slow.join(", ")))
    }
}

/// Places and routes the whole core for the larger device; build/report/pnr.json.
pub fn pnr() -> Result {
    let core = tools::emit(&["ironwarp_core".into()])?.remove(0);
    let (yosys, nextpnr) = versions()?;
    let dir = tools::build_dir("synth/ironwarp_core")?;
    let (size, device) = (measure(&core, &format!("{yosys}\n{nextpnr}"))?.size, &DEVICES[1]);
    // the usual router: a quarter of an hour of processor time, native; router2 finds no end
    let Some(mhz) = fmax(&core, &dir, device, 4 * 3600)? else {
        return fail(format!("the core does not fit {}; see {}", device.title, dir.display()));
    };
    let figures = Figures { name: core.name.into(), size, fmax_mhz: [(device.key.to_owned(), mhz)].into() };
    let report = Report { date: tools::today(), yosys: &yosys, nextpnr: &nextpnr, blocks: &[figures] };
    let text = serde_json::to_string_pretty(&report).map_err(|e| Error(e.to_string()))?;
    tools::write(&tools::build_dir("report")?.join("pnr.json"), &text)?;
    println!("pnr: {mhz:.1} MHz on {}\n{text}", device.title);
    Ok(())
}

fn versions() -> Result<(String, String)> {
    Ok((tools::version(&tools::yosys(), "-V")?, tools::version(&tools::nextpnr(), "--version")?))
}

fn measure(block: &Emitted, versions: &str) -> Result<Figures> {
    let dir = tools::build_dir(&format!("synth/{}", block.name))?;
    let wrapper = wrapper(block);
    let devices: Vec<_> = DEVICES.iter().flat_map(|d| d.arguments.iter().copied()).collect();
    let key = tools::hash(&[&block.verilog, &wrapper, RECIPE, MAPPING, &devices.join(" "), versions]);
    let kept = dir.join(format!("{key}.json"));
    if let Ok(text) = fs::read_to_string(&kept) {
        if let Ok(figures) = serde_json::from_str(&text) {
            return Ok(figures);
        }
    }
    let mut figures = Figures { name: block.name.into(), size: size(block, &dir)?, ..Default::default() };
    // the whole core takes long to place: `xtask pnr`
    if block.name != "ironwarp_core" {
        for device in DEVICES {
            if let Some(mhz) = fmax(block, &dir, device, 1200)? {
                figures.fmax_mhz.insert(device.key.into(), mhz);
            }
        }
    }
    tools::write(&kept, serde_json::to_string(&figures).map_err(|e| Error(e.to_string()))?)?;
    Ok(figures)
}

/// yosys over the block alone.
fn size(block: &Emitted, dir: &Path) -> Result<Size> {
    tools::write(&dir.join("block.v"), &block.verilog)?;
    yosys("block.v", block.name, "block", dir)?;
    parse_size(&tools::read(&dir.join("block.stat.json"))?)
}

fn yosys(file: &str, top: &str, out: &str, dir: &Path) -> Result {
    let script = RECIPE
        .replace("{mapping}", MAPPING)
        .replace("{file}", file)
        .replace("{top}", top)
        .replace("{stat}", &format!("{out}.stat.json"))
        .replace("{json}", &format!("{out}.json"));
    let (ok, text) = tools::run(&tools::yosys(), &["-q", "-p", &script], dir, 3600)?;
    tools::write(&dir.join(format!("{out}.yosys.log")), &text)?;
    if ok {
        Ok(())
    } else {
        fail(format!("{top}: yosys:\n{text}"))
    }
}

fn parse_size(stat: &str) -> Result<Size> {
    let stat: serde_json::Value = serde_json::from_str(stat).map_err(|e| Error(format!("yosys stat: {e}")))?;
    let cells = &stat["design"]["num_cells_by_type"];
    let count = |name: &str| cells[name].as_u64().unwrap_or(0);
    Ok(Size {
        lut4: count("LUT4") + 2 * count("CCU2C") + 6 * count("TRELLIS_DPR16X4"),
        ff: count("TRELLIS_FF"),
        bram: count("DP16KD"),
        dpr16x4: count("TRELLIS_DPR16X4"),
        mult18: count("MULT18X18D"),
    })
}

/// nextpnr over the wrapped block; `None` when it does not fit.
fn fmax(block: &Emitted, dir: &Path, device: &Device, seconds: u32) -> Result<Option<f64>> {
    let json = dir.join("wrapped.json");
    let text = format!("// {}\n", tools::hash(&[RECIPE, MAPPING])) + &wrapper(block) + &block.verilog;
    if !json.exists() || fs::read_to_string(dir.join("wrapped.v")).ok().as_deref() != Some(&text) {
        tools::write(&dir.join("wrapped.v"), &text)?;
        yosys("wrapped.v", "wrapped", "wrapped", dir)?;
    }
    let report = dir.join(format!("{}.json", device.key));
    let _ = fs::remove_file(&report);
    let name = format!("{}.json", device.key);
    let mut arguments = device.arguments.to_vec();
    arguments.extend(["--json", "wrapped.json", "--report", &name, "--freq", "100", "--seed", "1"]);
    arguments.extend(["--lpf-allow-unconstrained", "--timing-allow-fail"]);
    let (ok, log) = tools::run(&tools::nextpnr(), &arguments, dir, seconds)?;
    tools::write(&dir.join(format!("{}.log", device.key)), &log)?;
    if !ok {
        if log.contains("Unable to place cell") || log.contains("no Bels remaining") || log.contains("Failed to place") {
            return Ok(None);
        }
        let end: Vec<_> = log.lines().rev().take(5).collect();
        return fail(format!("{}: nextpnr for {}:\n{}", block.name, device.title, end.into_iter().rev().collect::<Vec<_>>().join("\n")));
    }
    let report: serde_json::Value = serde_json::from_str(&tools::read(&report)?).map_err(|e| Error(format!("nextpnr report: {e}")))?;
    let clocks = report["fmax"].as_object().map(|o| o.values().filter_map(|c| c["achieved"].as_f64()).collect::<Vec<_>>());
    match clocks.unwrap_or_default().into_iter().reduce(f64::min) {
        Some(mhz) => Ok(Some(mhz)),
        None => fail(format!("{}: nextpnr found no clock", block.name)),
    }
}

/// `block` with its inputs fed by one shift register and its outputs captured and shifted out.
fn wrapper(block: &Emitted) -> String {
    let (inputs, outputs): (Vec<&Port>, Vec<&Port>) = block.ports.iter().filter(|p| p.verilog != "clock").partition(|p| p.input);
    let bits = |ports: &[&Port]| ports.iter().map(|p| p.width).sum::<usize>().max(1);
    let (n_in, n_out) = (bits(&inputs), bits(&outputs));
    let connect = |ports: &[&Port], wire: &str| {
        let mut at = 0;
        ports.iter().fold(String::new(), |mut s, p| {
            write!(s, ",\n    .\\{} ({wire}[{at} +: {}])", p.verilog, p.width).expect("String");
            at += p.width;
            s
        })
    };
    format!(
        "module wrapped(input clk, input si, input load, output so);\n\
         reg [{}:0] x; wire [{}:0] y; reg [{}:0] captured, z; reg load_q;\nassign so = z[0];\n\
         always @(posedge clk) begin\n  x <= {{x, si}}; load_q <= load; captured <= y;\n  z <= load_q ? captured : {{1'b0, z[{}:1]}};\nend\n\
         {} dut(.clock(clk){}{});\nendmodule\n",
        n_in.max(2) - 1,
        n_out.max(2) - 1,
        n_out.max(2) - 1,
        n_out.max(2) - 1,
        block.name,
        connect(&inputs, "x"),
        connect(&outputs, "y"),
    )
}

fn document(report: &Report, projection: &str) -> Result<String> {
    let mut out = format!(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n<!-- generated by `make synth`; estimates are edited in tools/synth/projection.tsv -->\n\
         # Size and clock on ECP5\n\n\
         {}, `ecp5` profile. {}; nextpnr: {}.\n\n\
         Sizes are of the block alone. LUT4 counts logic, 2 a carry cell and 6 a 16 x 4 distributed RAM. Fmax is register to register with the block between two\n\
         shift registers (so that pins do not limit), one seed, nothing else in the chip; expect 20 to 35 % less in a full one. The target is {TARGET_MHZ} MHz everywhere.\n\n",
        report.date,
        report.yosys.split(" (").next().unwrap_or_default(),
        report.nextpnr.rsplit("Version ").next().unwrap_or_default().trim_end_matches(')'),
    );
    out += "| block | LUT4 | FF | block RAM (DP16KD) | DPR16X4 | MULT18 |";
    DEVICES.iter().for_each(|d| write!(out, " MHz, {} |", d.title).expect("String"));
    out += "\n|---|---|---|---|---|---|---|---|\n";
    for f in report.blocks {
        let s = &f.size;
        write!(out, "| {} | {} | {} | {} | {} | {} |", f.name, s.lut4, s.ff, s.bram, s.dpr16x4, s.mult18).expect("String");
        for d in DEVICES {
            match f.fmax_mhz.get(d.key) {
                Some(mhz) => write!(out, " {mhz:.1} |").expect("String"),
                None if f.name == "ironwarp_core" => out += " `make pnr` |",
                None => out += " does not fit |",
            }
        }
        out.push('\n');
    }
    let Some(core) = report.blocks.iter().find(|f| f.name == "ironwarp_core") else {
        return fail("ironwarp_core is not in the catalog");
    };
    write!(
        out,
        "\n## Projection against the budget\nThe core is measured, the data path in it; **the other rows are estimates** of what it does not contain. Budget with data path on LFE5UM5G-85F: \
         {BUDGET_LUT4} LUT4, {BUDGET_BRAM} block RAM.\n\n| block | LUT4 | block RAM | rests on |\n|---|---|---|---|\n| ironwarp_core today | {} | {} | measured |\n",
        core.size.lut4, core.size.bram
    )
    .expect("String");
    let (mut lut4, mut bram) = (core.size.lut4, core.size.bram);
    for line in projection.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
        let bad = || Error(format!("tools/synth/projection.tsv: {line}"));
        let columns: Vec<_> = line.split('\t').collect();
        let [name, l, b, basis] = columns[..] else { return Err(bad()) };
        lut4 += l.parse::<u64>().map_err(|_| bad())?;
        bram += b.parse::<u64>().map_err(|_| bad())?;
        writeln!(out, "| {name} | ~{l} | ~{b} | {basis} |").expect("String");
    }
    writeln!(out, "| all | ~{lut4} | ~{bram} | {} % and {} % of the budget |", lut4 * 100 / BUDGET_LUT4, bram * 100 / BUDGET_BRAM)
        .expect("String");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_what_lies_in_slices() {
        let stat = r#"{"design": {"num_cells_by_type": {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7, "DP16KD": 1}}}"#;
        assert_eq!(parse_size(stat).expect("parses"), Size { lut4: 28, ff: 7, bram: 1, dpr16x4: 2, mult18: 0 });
    }

    #[test]
    fn the_projection_is_well_formed() {
        let core = Figures { name: "ironwarp_core".into(), ..Default::default() };
        let report = Report { date: String::new(), yosys: "", nextpnr: "", blocks: &[core] };
        document(&report, include_str!("../../synth/projection.tsv")).expect("every row has four columns and numbers");
    }
}
