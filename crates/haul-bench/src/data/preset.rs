//! The data sets that published comparisons of transfer tools were made with.
//!
//! Their "MB" and "GB" are read as what the program that printed them counts: scp and dcp in powers of 1024.

use super::skeleton::Row;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    pub sets: &'static [PresetSet],
}

/// Files that belong together.
#[derive(Clone, Copy, Debug)]
pub struct PresetSet {
    pub name: &'static str,
    pub count: u64,
    /// Bytes of all its files.
    pub total: u64,
    pub sizes: Sizes,
    pub symlinks: u64,
    /// How each file is called; numbered where there is none.
    pub file_name: Option<fn(u64) -> String>,
    /// The directories; `None` is a single one.
    pub rows: Option<&'static [Row]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    Even,
    /// Lognormal with this sigma.
    Spread(f64),
}

const PLAIN: PresetSet = PresetSet { name: "", count: 0, total: 0, sizes: Sizes::Even, symlinks: 0, file_name: None, rows: None };

/// Sigma where only the mean is known: file sizes of shared scratch file systems have a mean of some ten times the median.
const SPREAD: f64 = 2.0;

pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "kaust",
        about: "KAUST Supercomputing Lab, data transfer utilities: dcp against cp, and an scp of a directory",
        sets: &[
            // "37760 CSV files each of 6.5kB (a total of 241.085 MB)": both are right in powers of 1024 only, with 6,695 bytes a file.
            PresetSet { name: "small", count: 37_760, total: 252_795_944, ..PLAIN },
            PresetSet { name: "files", count: 26, total: 26 * 8 * MIB, file_name: Some(myfile), ..PLAIN },
            // The run of dcp: 7844 items, and its table of levels.
            PresetSet {
                name: "project",
                count: 7247,
                total: 570_247_967_642,
                sizes: Sizes::Spread(SPREAD),
                symlinks: 408,
                rows: Some(&PROJECT),
                ..PLAIN
            },
        ],
    },
    Preset {
        name: "efs",
        about: "Amazon EFS workshop, transfer tools: rsync, cp and fpsync from EBS to EFS",
        sets: &[PresetSet { name: "data-1m", count: 5000, total: 5000 * MIB, ..PLAIN }],
    },
    Preset {
        name: "epcc",
        about: "EPCC 2006, gridftp against scp: single files of random numbers, up to 2 GB",
        sets: &[
            PresetSet { name: "bin1M", count: 1, total: MIB, file_name: Some(|_| "bin1M".into()), ..PLAIN },
            PresetSet { name: "bin500M", count: 1, total: 500 * MIB, file_name: Some(|_| "bin500M".into()), ..PLAIN },
            PresetSet { name: "bin1G", count: 1, total: GIB, file_name: Some(|_| "bin1G".into()), ..PLAIN },
            PresetSet { name: "bin2G", count: 1, total: 2 * GIB, file_name: Some(|_| "bin2G".into()), ..PLAIN },
        ],
    },
    Preset {
        name: "uab",
        about: "University of Alabama at Birmingham, s5cmd case study: GPFS to object storage",
        sets: &[
            PresetSet { name: "many", count: 1000, total: 1000 * 10 * MIB, ..PLAIN },
            PresetSet { name: "large", count: 39, total: 39 * GIB, ..PLAIN },
            PresetSet { name: "single", count: 1, total: 4800 * MIB, ..PLAIN },
        ],
    },
    Preset {
        name: "arcts",
        about: "ARC-TS, University of Michigan, scp against Globus: one large file, and the same in pieces",
        sets: &[
            PresetSet { name: "single", count: 1, total: 5091 * MIB, file_name: Some(|_| "all-out.txt.bz2".into()), ..PLAIN },
            PresetSet { name: "many", count: 5093, total: 5093 * MIB, ..PLAIN },
        ],
    },
];

/// Of the levels that dcp lists, the first (6) is what was named on its command line.
const PROJECT: [Row; 9] = [
    row(0, 1, 15, 1),
    row(1, 1, 25, 19),
    row(2, 19, 3995, 59),
    row(3, 59, 516, 33),
    row(4, 33, 1763, 60),
    row(5, 60, 1039, 12),
    row(6, 12, 249, 4),
    row(7, 4, 47, 1),
    row(8, 1, 6, 0),
];

const fn row(depth: u32, dirs: u64, entries: u64, subdirs: u64) -> Row {
    Row { depth, dirs, entries, subdirs }
}

/// `myfile_a.bin` and so on.
fn myfile(number: u64) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    if number < 26 { format!("myfile_{letter}.bin") } else { format!("myfile_{letter}{}.bin", number / 26) }
}

/// For messages: `kaust, efs, ...`.
pub fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_those_that_were_published() {
        let set = |preset: &str, name: &str| {
            let preset = PRESETS.iter().find(|p| p.name == preset).unwrap();
            *preset.sets.iter().find(|s| s.name == name).unwrap()
        };
        let mib = |set: PresetSet| format!("{:.3}", set.total as f64 / MIB as f64);
        let small = set("kaust", "small");
        assert_eq!((small.count, mib(small)), (37_760, "241.085".into()));
        assert_eq!(format!("{:.1}", small.total as f64 / small.count as f64 / 1024.0), "6.5");
        let project = set("kaust", "project");
        assert_eq!((project.count, project.symlinks), (7247, 408));
        assert_eq!(format!("{:.3}", project.total as f64 / GIB as f64), "531.085");
        assert_eq!(format!("{:.3}", project.total as f64 / GIB as f64 * 1024.0 / 7247.0), "75.042");
        assert_eq!(PROJECT.iter().map(|row| row.entries).sum::<u64>(), 7247 + 408);
        assert_eq!(PROJECT.iter().skip(1).map(|row| row.dirs).sum::<u64>(), 189);
        assert_eq!(format!("{:.1}", set("efs", "data-1m").total as f64 / GIB as f64), "4.9");
        // 427.089 Mbit/s for 100 s.
        assert_eq!((427.089e6 / 8.0 * 100.0 / MIB as f64) as u64, set("arcts", "single").total / MIB);
        assert_eq!(set("uab", "single").total / MIB, 4800);
        assert_eq!(mib(set("uab", "many")), "10000.000");
    }

    #[test]
    fn names_are_not_repeated() {
        let names: std::collections::HashSet<String> = (0..1000).map(myfile).collect();
        assert_eq!(names.len(), 1000);
    }
}
