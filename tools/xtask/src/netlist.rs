// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask netlist-test`: the same tests once more on the design as yosys read it, written back as Verilog. It shows that synthesis and
//! simulation see one design: memories and their read-during-write, selects, widths.
use crate::tools::{self, fail, Error, Result};
use ironwarp_hdl::elaborate::Emitted;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The block that `tests/` runs on.
const CORE: &str = "ironwarp_core";
/// Those of `tests/` that run on its netlist: they use every block of it, and take minutes where all take a quarter of an hour.
const CORE_TESTS: [&str; 4] = ["cm_adapter", "golden", "net", "robust"];
/// Nets are split where their parts have different drivers: a vector whose bits depend on each other looks like a loop to Verilator, and
/// 5.006 does not always settle such a loop after a change of an input. The names that yosys makes up get a prefix, because the model's build
/// runs yosys once more, which would give the same names again, also that of a memory.
const SCRIPT: &str =
    "read_verilog {file}; prep -flatten -top {top}; check -assert; splitnets -driver; write_verilog -noattr -renameprefix n {out}";

/// Runs the tests of `names` (all blocks when empty) on their netlists.
pub fn run(names: &[String]) -> Result {
    let blocks = tools::emit(names)?;
    let dir = tools::build_dir("netlists")?;
    tools::in_pairs(&blocks, |b| write(b, &dir)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut tested = 0;
    for block in &blocks {
        let selection = if block.name == CORE {
            ["--package", "ironwarp-tests"].into_iter().chain(CORE_TESTS.iter().flat_map(|test| ["--test", *test])).collect()
        } else if let Some(package) = package_of(block.name) {
            vec!["--package", package, "--test", block.name]
        } else {
            println!("netlist-test: {}: NOT RUN, it has no test of its own", block.name);
            continue;
        };
        println!("netlist-test: {}", block.name);
        if !cargo_test(&selection, &dir)? {
            return fail(format!(
                "{}: its tests fail on the netlist; if they pass on the emitted Verilog, synthesis reads the block differently",
                block.name
            ));
        }
        tested += 1;
    }
    println!("netlist-test: {tested} of {} blocks tested on their netlist", blocks.len());
    Ok(())
}

/// Which package holds `tests/<block>.rs`.
pub fn package_of(block: &str) -> Option<&'static str> {
    [("ironwarp-models", "sim/models/tests"), ("ironwarp-tests", "tests/tests")]
        .into_iter()
        .find(|(_, dir)| tools::root().join(dir).join(format!("{block}.rs")).exists())
        .map(|(package, _)| package)
}

/// `cargo test` with the models made from the netlists in `dir`.
fn cargo_test(selection: &[&str], dir: &Path) -> Result<bool> {
    let status = Command::new("cargo")
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(selection)
        .env("IRONWARP_NETLISTS", dir)
        .current_dir(tools::root())
        .status()
        .map_err(|e| Error(format!("cargo: {e}")))?;
    Ok(status.success())
}

/// Writes `<dir>/<name>.v` as yosys reads `block`, unless it is there already.
fn write(block: &Emitted, dir: &Path) -> Result<PathBuf> {
    let out = dir.join(format!("{}.v", block.name));
    let stamp = dir.join(format!("{}.hash", block.name));
    let key = tools::hash(&[&block.verilog, SCRIPT, &tools::version(&tools::yosys(), "-V")?]);
    if out.exists() && fs::read_to_string(&stamp).is_ok_and(|k| k == key) {
        return Ok(out);
    }
    let source = dir.join(format!("{}.emitted", block.name));
    tools::write(&source, &block.verilog)?;
    // names within `dir`: yosys in its sandbox does not see every absolute path
    let script = SCRIPT
        .replace("{file}", &format!("{}.emitted", block.name))
        .replace("{top}", block.name)
        .replace("{out}", &format!("{}.v", block.name));
    let (ok, text) = tools::run(&tools::yosys(), &["-q", "-p", &script], dir, 900)?;
    if !ok {
        return fail(format!("{}: yosys:\n{text}", block.name));
    }
    tools::write(&stamp, key)?;
    Ok(out)
}
