//! Hosts that the user's ssh knows by name: for completions, and for a host that was typed without its colon.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use haul_core::filter::Glob;

/// Files that include each other are followed so far.
const DEPTH: u32 = 8;

/// A path that is the name of a host: somebody may have left the colon out. As it is to be shown.
pub fn named(path: &[u8], config: Option<&Path>) -> Option<String> {
    let name = std::str::from_utf8(path).ok().filter(|name| !name.contains('/'))?;
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    hosts(config).contains(host).then(|| haul_core::entry::show(path))
}

/// The names after `Host` in `config`, else in the user's and the system's configuration; patterns are none.
pub fn hosts(config: Option<&Path>) -> BTreeSet<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut found = BTreeSet::new();
    match config {
        Some(config) => read(config, &home.join(".ssh"), DEPTH, &mut found),
        None => {
            read(&home.join(".ssh/config"), &home.join(".ssh"), DEPTH, &mut found);
            read(Path::new("/etc/ssh/ssh_config"), Path::new("/etc/ssh"), DEPTH, &mut found);
        }
    }
    found
}

/// Reads one file; relative names in `Include` lie in `base`. What cannot be read names no host.
fn read(file: &Path, base: &Path, depth: u32, found: &mut BTreeSet<String>) {
    let Ok(bytes) = std::fs::read(file) else { return };
    for line in String::from_utf8_lossy(&bytes).lines() {
        let mut words = line.trim().splitn(2, |c: char| c.is_whitespace() || c == '=');
        let (word, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let values = rest.split_whitespace().map(|value| value.trim_matches(['"', '='])).filter(|value| !value.is_empty());
        if word.eq_ignore_ascii_case("host") {
            found.extend(values.filter(|name| !name.contains(['*', '?', '!'])).map(str::to_string));
        } else if word.eq_ignore_ascii_case("include") && depth > 0 {
            for pattern in values {
                let pattern = match pattern.strip_prefix("~/") {
                    Some(rest) => base.parent().unwrap_or(base).join(rest),
                    None => base.join(pattern),
                };
                included(&pattern).iter().for_each(|file| read(file, base, depth - 1, found));
            }
        }
    }
}

/// The files that a name stands for; there may be wildcards in its last part.
fn included(pattern: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(leaf)) = (pattern.parent(), pattern.file_name()) else { return Vec::new() };
    let leaf = leaf.as_encoded_bytes();
    if !leaf.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
        return vec![pattern.to_path_buf()];
    }
    let glob = Glob::new(leaf);
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| glob.matches(name.as_encoded_bytes())).map(|name| dir.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_patterns_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("conf.d")).expect("made");
        let config = dir.path().join("config");
        let text = "# Host no\nHost cluster login?  cl2\n  HostName h.example\nhost=equal\nHost \"quoted\" !not *.org\nInclude conf.d/*.conf config\n";
        std::fs::write(&config, text).expect("written");
        std::fs::write(dir.path().join("conf.d/a.conf"), "HOST inner\n").expect("written");
        std::fs::write(dir.path().join("conf.d/a.txt"), "Host other\n").expect("written");
        let mut found = BTreeSet::new();
        read(&config, dir.path(), DEPTH, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["cl2", "cluster", "equal", "inner", "quoted"]);
    }
}
