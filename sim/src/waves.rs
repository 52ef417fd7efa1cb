// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where waves go: `build/waves/<name>.fst` below the workspace, with `WAVES=1` (at build time, too: models record only then). In a test
//! the name begins with the test's, and a second adapter of a name in one process gets a number.
use std::{
    collections::BTreeMap,
    env,
    ffi::CString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

/// Whether waves are asked for.
pub fn wanted() -> bool {
    env::var("WAVES").is_ok_and(|w| !w.is_empty() && w != "0")
}

/// The workspace: the nearest directory above the current one that has a lock file of cargo.
fn root() -> PathBuf {
    let here = env::current_dir().unwrap_or_else(|_| ".".into());
    here.ancestors().find(|d| d.join("Cargo.lock").exists()).map_or(here.clone(), Path::to_owned)
}

/// Names given away in this process.
static TAKEN: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

/// A name for a file, out of those of the thread (a test's is that of the test) and the adapter.
fn stem(thread: Option<&str>, name: &str) -> String {
    let prefix = thread.filter(|t| *t != "main").map(|t| format!("{}.", t.replace("::", "."))).unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let stem: String = format!("{prefix}{name}").chars().map(safe).collect();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = taken.entry(stem.clone()).or_default();
    *count += 1;
    match count {
        1 => stem,
        n => format!("{stem}.{n}"),
    }
}

/// The file for the waves of an adapter, if they are wanted and its directory can be made.
pub(crate) fn file(name: &str) -> Option<CString> {
    if !wanted() {
        return None;
    }
    let directory = root().join("build/waves");
    if let Err(error) = fs::create_dir_all(&directory) {
        tracing::error!(directory = %directory.display(), %error, "no waves");
        return None;
    }
    let file = directory.join(stem(thread::current().name(), name)).into_os_string();
    CString::new([file.into_vec(), b".fst".to_vec()].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_adapter_has_a_file_of_its_own() {
        assert_eq!(stem(Some("main"), "left"), "left");
        assert_eq!(stem(None, "left"), "left.2");
        assert_eq!(stem(Some("area::a_test"), "../left"), "area.a_test..._left");
    }
}
