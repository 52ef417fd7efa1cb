// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where waves go: `build/waves/<name>.fst` below the workspace, with `WAVES=1` (at build time, too: models record only then).
use std::{
    env,
    ffi::CString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
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
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    CString::new(directory.join(format!("{safe}.fst")).into_os_string().into_vec()).ok()
}
