// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask`: gates and reports that need more than one command. `make help` shows the usual ways in.
use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod lint;
mod mutants;
mod netlist;
mod registers;
mod requirements;
mod sources;
mod synth;
mod tools;

#[derive(Parser)]
#[command(about = "Gates and reports of ironwarp")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Gates over the emitted Verilog and the sources
    Lint {
        /// Blocks of the catalog; all if none is named
        blocks: Vec<String>,
    },
    /// The tests of blocks on the netlists that yosys read
    NetlistTest {
        /// Blocks of the catalog; all if none is named
        blocks: Vec<String>,
    },
    /// Break blocks and see whether their own tests notice
    Mutants(mutants::Options),
    /// Size and clock of blocks on ECP5: docs/synthesis.md, build/report/synth.json
    Synth {
        /// Blocks of the catalog; all if none is named
        blocks: Vec<String>,
    },
    /// Place and route the whole core (long): build/report/pnr.json
    Pnr,
    /// docs/registers.md from the ABI
    Registers {
        /// Only say whether it is up to date
        #[arg(long)]
        check: bool,
    },
    /// docs/requirements.md from tests/requirements.tsv and the tests
    Requirements {
        /// Say whether it is up to date, and fail on what is due and open
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Lint { blocks } => lint::run(&blocks),
        Task::NetlistTest { blocks } => netlist::run(&blocks),
        Task::Mutants(options) => mutants::run(&options),
        Task::Synth { blocks } => synth::run(&blocks),
        Task::Pnr => synth::pnr(),
        Task::Registers { check } => registers::run(check),
        Task::Requirements { check } => requirements::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
