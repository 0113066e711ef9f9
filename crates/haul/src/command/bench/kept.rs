//! Where runs are kept, and the page that is made of each.

use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_bench::record::Kind;
use haul_bench::report;
use haul_core::entry::show;

use crate::flags::Global;
use crate::out;

/// The run directory that was asked for; without one a new one below the state directory.
pub fn directory(asked: Option<&Path>, global: &Global, kind: Kind) -> PathBuf {
    let dir = asked.map_or_else(|| of_chance(global, kind), Path::to_path_buf);
    std::path::absolute(&dir).unwrap_or(dir)
}

fn of_chance(global: &Global, kind: Kind) -> PathBuf {
    let above = global.state_dir.clone().or_else(|| haul_core::journal::default_root(|name| std::env::var_os(name)));
    let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let name = format!("{}-{stamp}-{:04x}", kind.words(), chance() & 0xffff);
    above.unwrap_or_else(std::env::temp_dir).join("bench").join(name)
}

/// A number that nobody can know before.
pub fn chance() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Writes the page of a run that is over, and says where it is. What was measured is kept without it, too.
pub fn page(dir: &Path, global: &Global) {
    match report::write(dir) {
        Ok(page) if !global.quiet => out::say(&format!("the report is {}", show(page.as_os_str().as_bytes()))),
        Ok(_) => {}
        Err(e) => out::failure(&e),
    }
}
