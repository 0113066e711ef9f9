//! The conformance suite on local file systems: those that people have, each made for the test, and a slow one.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use haul_local::{Local, Options};
use haul_test::slowfs::{self, SlowFs};
use haul_test::store_suite;
use haul_test::suite::Fixture;
use haul_test::volume::Volume;

const SIZE: u64 = 400 << 20;

fn open(path: &std::path::Path) -> haul_core::Result<Local> {
    Local::open(path, Options::default())
}

/// One volume serves the checks that run at the same time, each in a directory of its own; the last one to
/// leave unmounts it.
struct Shared {
    volume: Mutex<Weak<Volume>>,
    make: fn(u64) -> std::io::Result<Volume>,
}

impl Shared {
    const fn new(make: fn(u64) -> std::io::Result<Volume>) -> Self {
        Shared { volume: Mutex::new(Weak::new()), make }
    }

    fn fixture(&self) -> Fixture {
        let volume = {
            let mut known = self.volume.lock().unwrap_or_else(PoisonError::into_inner);
            known.upgrade().unwrap_or_else(|| {
                let made = Arc::new((self.make)(SIZE).expect("the file system can be made and mounted: root, mkfs and a loop device"));
                *known = Arc::downgrade(&made);
                made
            })
        };
        let directory = tempfile::tempdir_in(volume.path()).expect("a directory in the volume");
        Fixture::in_directory(directory.path().to_path_buf(), open, (directory, volume))
    }
}

static EXT4: Shared = Shared::new(Volume::ext4);
static XFS: Shared = Shared::new(Volume::xfs);
static BTRFS: Shared = Shared::new(Volume::btrfs);
static TMPFS: Shared = Shared::new(Volume::tmpfs);

store_suite!(ext4, || EXT4.fixture());

store_suite!(xfs, || XFS.fixture());

store_suite!(btrfs, || BTRFS.fixture());

store_suite!(tmpfs, || TMPFS.fixture());

store_suite!(fuse, || {
    let backing = tempfile::tempdir().expect("a temporary directory");
    let mounted = SlowFs::mount(backing.path(), slowfs::Options::fast()).expect("FUSE can be mounted: root and /dev/fuse");
    Fixture::in_directory(mounted.path().to_path_buf(), open, (mounted, backing))
});
