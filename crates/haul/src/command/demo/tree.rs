//! What the demo copies: the same bytes, times and modes each time.
//!
//! ```text
//! run7/input.nml            the settings of the run
//!     /run.sh               executable
//!     /provenance.txt       nobody may write it; has an extended attribute, where the file system takes one
//!     /restart.nc           200 MiB, 40 of them a hole
//!     /restart_day30.nc     another name of restart.nc
//!     /latest               a symlink to out/day30
//!     /out/day01 ... day30  ten fields of 2 to 40 kB each
//! ```

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_bench::order::mix;
use haul_bench::synthetic::pattern;
use haul_core::error::{Error, Result};

const DAYS: u64 = 30;
const FIELDS: [&str; 10] = ["density", "humidity", "ice", "precip", "pressure", "salinity", "temperature", "u_wind", "v_wind", "vorticity"];
const RESTART: u64 = 200 << 20;
/// Where the restart file has nothing.
const HOLE: std::ops::Range<u64> = 80 << 20..120 << 20;
const BLOCK: usize = 1 << 20;
/// 2024-01-15 06:00:00 UTC.
const EPOCH: u64 = 1_705_298_400;

/// Makes the tree and says what there is. `check` is asked now and then whether to go on.
pub fn make(root: &Path, check: &dyn Fn() -> Result<()>) -> Result<Vec<String>> {
    let bytes = Maker { check }.tree(root)?;
    let xattr =
        rustix::fs::lsetxattr(root.join("provenance.txt"), "user.origin", b"ocean model 4.2, run 7", rustix::fs::XattrFlags::empty());
    let files = DAYS * FIELDS.len() as u64 + 5;
    Ok(vec![
        format!("  run7/             {files} files in {} directories, {}", DAYS + 2, crate::units::bytes(bytes)),
        format!("  out/day01 ... {DAYS}  {} small files each, of 2 to 40 kB", FIELDS.len()),
        "  restart.nc        200 MiB, 40 of them a hole, and a hard link to it".into(),
        "  latest            a symlink to out/day30".into(),
        format!("  and an executable, a read-only file{}, old times", if xattr.is_ok() { " with an extended attribute" } else { "" }),
    ])
}

struct Maker<'a> {
    check: &'a dyn Fn() -> Result<()>,
}

fn fail<'p>(op: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::io(e, op).at(path.as_os_str().as_encoded_bytes())
}

impl Maker<'_> {
    /// Returns the sum of the sizes, the hard link not counted twice.
    fn tree(&self, root: &Path) -> Result<u64> {
        let out = root.join("out");
        std::fs::create_dir_all(&out).map_err(fail("mkdir", &out))?;
        let mut bytes = 0;
        for day in 1..=DAYS {
            (self.check)()?;
            let dir = out.join(format!("day{day:02}"));
            std::fs::create_dir(&dir).map_err(fail("mkdir", &dir))?;
            for (n, field) in FIELDS.iter().enumerate() {
                let seed = day * 100 + n as u64;
                let mut content = vec![0; 2_000 + (mix(seed) % 38_000) as usize];
                pattern(seed, 0, &mut content);
                let path = dir.join(format!("{field}.dat"));
                bytes += self.file(&path, &content, 0o644, day * 86_400 + n as u64 * 60)?;
            }
            touch(&dir, 0o755, day * 86_400 + 3_600)?;
        }
        bytes += self.file(&root.join("input.nml"), INPUT.as_bytes(), 0o644, 0)?;
        bytes += self.file(&root.join("run.sh"), SCRIPT.as_bytes(), 0o755, 0)?;
        bytes += self.file(&root.join("provenance.txt"), PROVENANCE.as_bytes(), 0o444, 60)?;
        bytes += self.restart(&root.join("restart.nc"))?;
        let second = root.join("restart_day30.nc");
        std::fs::hard_link(root.join("restart.nc"), &second).map_err(fail("link", &second))?;
        let latest = root.join("latest");
        symlink("out/day30", &latest).map_err(fail("symlink", &latest))?;
        touch(&out, 0o755, DAYS * 86_400 + 3_600)?;
        touch(root, 0o755, DAYS * 86_400 + 7_200)?;
        Ok(bytes)
    }

    fn file(&self, path: &Path, content: &[u8], mode: u32, after: u64) -> Result<u64> {
        File::create_new(path).and_then(|mut file| file.write_all(content)).map_err(fail("write", path))?;
        touch(path, mode, after)?;
        Ok(content.len() as u64)
    }

    fn restart(&self, path: &Path) -> Result<u64> {
        let file = File::create_new(path).map_err(fail("create", path))?;
        file.set_len(RESTART).map_err(fail("write", path))?;
        let mut block = vec![0; BLOCK];
        for at in (0..RESTART).step_by(BLOCK).filter(|at| !HOLE.contains(at)) {
            (self.check)()?;
            pattern(at + 1, 0, &mut block);
            file.write_all_at(&block, at).map_err(fail("write", path))?;
        }
        touch(path, 0o644, DAYS * 86_400 + 5_400)?;
        Ok(RESTART)
    }
}

/// Mode and time, as seconds after the run's begin and a part of a second.
fn touch(path: &Path, mode: u32, after: u64) -> Result<()> {
    let time: SystemTime = UNIX_EPOCH + Duration::new(EPOCH + after, 123_456_789);
    let set = File::open(path).and_then(|file| {
        file.set_modified(time)?;
        file.set_permissions(Permissions::from_mode(mode))
    });
    set.map_err(fail("set attributes", path))
}

const INPUT: &str = "&run
  title    = 'run 7, coupled ocean and ice'
  start    = '2024-01-15 06:00:00'
  days     = 30
  dt       = 450.0
  restart  = .true.
/
&grid
  nx = 720, ny = 360, nz = 42
/
";

const SCRIPT: &str = "#!/bin/sh
#SBATCH --nodes=16 --time=06:00:00
srun ./ocean.exe input.nml
";

const PROVENANCE: &str = "model   ocean 4.2
input   input.nml
machine 16 nodes of 128 cores
";
