//! The machine and the places of a measurement, to understand a number months later.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// This machine, as far as it can be determined without root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    pub name: String,
    /// Name and release, as `uname -sr`.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub system: Option<String>,
    pub processors: u32,
    pub processor: Option<String>,
    /// Bytes.
    pub memory: Option<u64>,
    /// The load of the last minute, when the run began.
    pub load: Option<f64>,
    pub root: bool,
    pub haul: String,
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    pub name: String,
    /// Mbit/s, by its driver.
    pub speed: Option<u64>,
    /// Bytes.
    pub mtu: Option<u64>,
}

/// A place that takes part, and its file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// `source`, `destination`, `data`.
    pub role: String,
    pub address: String,
    pub file_system: Option<String>,
    pub device: Option<String>,
    pub mounted_on: Option<String>,
    pub options: Option<String>,
    /// Bytes, when the run began.
    pub free: Option<u64>,
}

impl Host {
    /// `haul` is the program's version.
    pub fn here(haul: &str) -> Host {
        let uname = rustix::system::uname();
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, label: &str, by: char| {
            let line = text.lines().find(|line| line.starts_with(label))?;
            Some(line.split_once(by)?.1.trim().trim_matches('"').to_string())
        };
        let memory = after(&text("/proc/meminfo"), "MemTotal", ':');
        Host {
            name: uname.nodename().to_string_lossy().into_owned(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            system: after(&text("/etc/os-release"), "PRETTY_NAME", '='),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            processor: after(&text("/proc/cpuinfo"), "model name", ':'),
            memory: memory.and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok()).map(|kib| kib * 1024),
            load: text("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
            root: rustix::process::geteuid().is_root(),
            haul: haul.to_string(),
            interfaces: interfaces(),
        }
    }
}

/// Those that are up, but for loopback.
fn interfaces() -> Vec<Interface> {
    let Ok(found) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut up: Vec<Interface> = found
        .flatten()
        .filter(|entry| entry.file_name() != "lo" && fs::read_to_string(entry.path().join("operstate")).is_ok_and(|s| s.trim() == "up"))
        .map(|entry| Interface {
            name: entry.file_name().to_string_lossy().into_owned(),
            speed: number(entry.path().join("speed")),
            mtu: number(entry.path().join("mtu")),
        })
        .collect();
    up.sort_by(|a, b| a.name.cmp(&b.name));
    up
}

impl Place {
    /// `address` as it was given; `path` on this machine, existing or not.
    pub fn of(role: &str, address: &str, path: Option<&Path>) -> Place {
        let mut place = Place { role: role.into(), address: address.into(), ..Place::default() };
        let Some(path) = path.and_then(nearest) else { return place };
        if let Some(mount) = mount_of(&path, &fs::read("/proc/self/mountinfo").unwrap_or_default()) {
            place.file_system = Some(mount.kind);
            place.device = Some(mount.source);
            place.mounted_on = Some(mount.on.to_string_lossy().into_owned());
            place.options = Some(mount.options);
        }
        place.free = rustix::fs::statvfs(&path).ok().map(|stat| stat.f_bavail * stat.f_frsize);
        place
    }
}

/// The path itself, or the nearest directory above it that exists, without links.
pub fn nearest(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().find_map(|above| above.canonicalize().ok())
}

struct Mount {
    on: PathBuf,
    kind: String,
    source: String,
    options: String,
}

/// The last of the longest mount points above `path`: proc_pid_mountinfo(5).
fn mount_of(path: &Path, table: &[u8]) -> Option<Mount> {
    let mut found: Option<Mount> = None;
    for line in table.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let Some(dash) = words.iter().position(|word| *word == b"-") else { continue };
        let (Some(on), Some(options), Some(kind), Some(source)) = (words.get(4), words.get(5), words.get(dash + 1), words.get(dash + 2))
        else {
            continue;
        };
        let on = PathBuf::from(OsString::from_vec(unescaped(on)));
        if path.starts_with(&on) && found.as_ref().is_none_or(|mount| on.as_os_str().len() >= mount.on.as_os_str().len()) {
            let text = |bytes: &[u8]| haul_core::entry::show(&unescaped(bytes));
            let special = words.get(dash + 3).map_or(String::new(), |more| format!(",{}", text(more)));
            found = Some(Mount { on, kind: text(kind), source: text(source), options: text(options) + &special });
        }
    }
    found
}

/// Blanks are written as `\040`.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_the_last_of_the_longest_above() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /a\\040b rw,noatime - xfs /dev/b rw,quota\n3 1 0:6 / /a\\040b rw - tmpfs none rw\n";
        let mount = mount_of(Path::new("/a b/c"), table).unwrap();
        assert_eq!((mount.kind.as_str(), mount.options.as_str()), ("tmpfs", "rw,rw"));
        let mount = mount_of(Path::new("/a b c"), table).unwrap();
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/a"));
    }
}
