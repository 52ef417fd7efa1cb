// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory for sockets and files of one run.
use crate::Failure;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Goes away with its files.
pub struct Directory(PathBuf);

impl Directory {
    /// A new one; `of` is a part of its name.
    pub fn new(of: &str) -> Result<Self, Failure> {
        // short: it is part of the paths of sockets
        let path = std::env::temp_dir().join(format!("ironwarp-{of}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory(path))
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
