// SPDX-License-Identifier: MIT OR Apache-2.0
//! `emit DIR [NAME..]`: writes the Verilog of every block of the catalog, or of those named, to DIR; fails on a lint hit that no
//! waiver explains.
use ironwarp_hdl::{catalog::CATALOG, lint};
use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let Some(dir) = args.next().map(PathBuf::from) else {
        eprintln!("usage: emit DIR [NAME..]");
        return ExitCode::FAILURE;
    };
    let names: Vec<String> = args.collect();
    if let Err(e) = fs::create_dir_all(&dir) {
        eprintln!("emit: {}: {e}", dir.display());
        return ExitCode::FAILURE;
    }
    let mut hits = 0;
    for entry in CATALOG.iter().filter(|e| names.is_empty() || names.iter().any(|n| n == e.name)) {
        let emitted = entry.emit();
        let path = dir.join(format!("{}.v", emitted.name));
        if let Err(e) = fs::write(&path, &emitted.verilog) {
            eprintln!("emit: {}: {e}", path.display());
            return ExitCode::FAILURE;
        }
        for hit in lint::unexplained(&emitted.lint) {
            eprintln!("lint: {hit}");
            hits += 1;
        }
        println!("{} {} lines", path.display(), emitted.verilog.lines().count());
    }
    if hits == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
