//! The slow file system shows what is behind it, waits in parallel, and fails when told to.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use haul_test::compare::{What, assert_same};
use haul_test::nasty;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::tree::{Tree, file_seed};
use haul_test::{content, nobody};

use crate::{copy, directory};

fn fast(backing: &Path) -> SlowFs {
    SlowFs::mount(backing, Options::fast()).expect("slowfs mounts")
}

#[test]
fn a_nasty_tree_passes_through_both_ways() {
    let base = directory();
    let backing = Tree::new(base.path().join("backing")).unwrap();
    let slow = SlowFs::mount(backing.path(), Options { xattrs: true, ..Options::fast() }).unwrap();
    // Made through the mount, judged behind it and before it.
    assert_eq!(nasty::build(&slow.path().join("made")).unwrap(), Vec::<String>::new());
    assert_same(&slow.path().join("made"), &backing.join("made"), What::ALL);
    nasty::build(&base.path().join("direct")).unwrap();
    assert_same(&base.path().join("direct"), &backing.join("made"), What { mtime: None, ..What::ALL });
    fs::remove_dir_all(base.path().join("direct")).unwrap();
    nasty::build_shallow(&base.path().join("direct")).unwrap();
    // Copied through the mount, from and to it.
    copy(&base.path().join("direct"), &slow.path().join("copied"));
    assert_same(&base.path().join("direct"), &backing.join("copied"), What::ALL);
    copy(&slow.path().join("copied"), &base.path().join("back"));
    assert_same(&base.path().join("direct"), &base.path().join("back"), What::ALL);
    fs::rename(slow.path().join("copied"), slow.path().join("renamed")).unwrap();
    assert_same(&base.path().join("direct"), &backing.join("renamed"), What::ALL);
    fs::remove_dir_all(slow.path().join("renamed")).unwrap();
    assert!(!backing.join("renamed").exists());
}

#[test]
fn delays_of_many_requests_overlap() {
    let base = directory();
    let backing = Tree::new(base.path()).unwrap();
    let readers = 64;
    for number in 0..readers {
        backing.build(&format!("f{number}=10")).unwrap();
    }
    let delay = Duration::from_millis(50);
    let slow = SlowFs::mount(base.path(), Options { metadata_delay: delay, ..Options::default() }).unwrap();
    let start = Barrier::new(readers);
    thread::scope(|scope| {
        for number in 0..readers {
            let (start, slow) = (&start, &slow);
            scope.spawn(move || {
                start.wait();
                fs::metadata(slow.path().join(format!("f{number}"))).unwrap();
            });
        }
    });
    let most = slow.counts().most_waiting();
    assert!(most > readers / 4, "{most} of {readers} requests waited at once");
    assert!(slow.counts().metadata() >= readers as u64);
}

#[test]
fn a_small_file_costs_four_requests() {
    let base = directory();
    let slow = fast(base.path());
    fs::create_dir(slow.path().join("d")).unwrap();
    fs::write(slow.path().join("d/first"), [1; 6500]).unwrap();
    let (metadata, data) = (slow.counts().metadata(), slow.counts().data());
    for number in 0..20 {
        fs::write(slow.path().join(format!("d/f{number}")), [1; 6500]).unwrap();
    }
    assert_eq!(slow.counts().data() - data, 20);
    let metadata = slow.counts().metadata() - metadata;
    // Cached names may run out in between on a slow machine, hence a range.
    assert!((60..=64).contains(&metadata), "{metadata} metadata requests for 20 files: LOOKUP, CREATE, FLUSH each");
}

#[test]
fn other_users_are_judged_by_the_kernel() {
    let base = directory();
    let backing = Tree::new(base.path().join("backing")).unwrap();
    backing.build("open/ closed=10:0600").unwrap();
    nobody::give(&backing.join("open")).unwrap();
    let slow = SlowFs::mount(backing.path(), Options { permissions: true, ..Options::fast() }).unwrap();
    // The mount point of the library is below a directory of root's own making; the mount itself shows the backing directory's mode.
    let sh = nobody::NobodyProgram::new(Path::new("/bin/sh")).unwrap();
    let script = r#"echo hello > "$1/open/new" && mkdir "$1/open/sub" && ! cat "$1/closed" && ! touch "$1/refused""#;
    let output = sh.command().args(["-c", script, "sh"]).arg(slow.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["open/new", "open/sub"] {
        use std::os::unix::fs::MetadataExt;
        let stat = fs::metadata(backing.join(name)).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (nobody::NOBODY, nobody::NOBODY), "{name}");
    }
}

#[test]
fn a_read_fails_where_it_is_told_to() {
    let base = directory();
    Tree::new(base.path()).unwrap().build("bad.dat=500K good.dat=500K").unwrap();
    let slow = fast(base.path());
    slow.faults().add(Fault::always("bad", FaultKind::ReadError { after: 200_001 }));
    let mut bytes = Vec::new();
    let error = File::open(slow.path().join("bad.dat")).unwrap().read_to_end(&mut bytes).unwrap_err();
    assert_eq!((error.raw_os_error(), bytes.len()), (Some(libc::EIO), 200_001));
    let mut wanted = vec![0; 200_001];
    content::fill(file_seed(Path::new("bad.dat")), 0, &mut wanted);
    assert_eq!(bytes, wanted);
    assert_eq!(fs::read(slow.path().join("good.dat")).unwrap().len(), 500 << 10);
    slow.faults().clear();
    assert_eq!(fs::read(slow.path().join("bad.dat")).unwrap().len(), 500 << 10);
}

#[test]
fn a_write_fails_where_it_is_told_to() {
    let base = directory();
    let slow = fast(base.path());
    slow.faults().add(Fault::once("one", FaultKind::WriteError { after: 100 }));
    slow.faults().add(Fault::always("full", FaultKind::NoSpace { after: 10_000 }));
    let one = File::create(slow.path().join("one")).unwrap();
    one.write_all_at(&[1; 100], 0).unwrap();
    assert_eq!(one.write_all_at(&[1; 100], 50).unwrap_err().raw_os_error(), Some(libc::EIO));
    one.write_all_at(&[1; 100], 50).unwrap();
    for (name, fits) in [("full1", true), ("full2", true), ("full3", false), ("other", true)] {
        let written = fs::write(slow.path().join(name), [2; 4000]);
        match fits {
            true => written.unwrap(),
            false => assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull),
        }
    }
    assert_eq!(slow.faults().struck(), 2);
}

#[test]
fn close_reports_what_it_is_told_to() {
    let base = directory();
    Tree::new(base.path()).unwrap().build("read-only=10").unwrap();
    let slow = fast(base.path());
    slow.faults().add(Fault::always("", FaultKind::CloseError { errno: libc::EDQUOT }));
    let mut file = File::create(slow.path().join("new")).unwrap();
    file.write_all(b"accepted").unwrap();
    // SAFETY: the descriptor was just taken out of its owner and is closed once.
    let closed = unsafe { libc::close(file.into_raw_fd()) };
    let error = std::io::Error::last_os_error();
    assert_eq!((closed, error.raw_os_error()), (-1, Some(libc::EDQUOT)));
    let file = File::open(slow.path().join("read-only")).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::close(file.into_raw_fd()) }, 0, "closing a file that was only read is no write's report");
}

#[test]
fn a_stale_handle_is_seen_at_open() {
    let base = directory();
    Tree::new(base.path()).unwrap().build("x=10").unwrap();
    let slow = fast(base.path());
    slow.faults().add(Fault::always("x", FaultKind::OpenStale));
    assert_eq!(File::open(slow.path().join("x")).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    slow.faults().clear();
    // The kernel walks the path once more by itself: a single refusal is not seen.
    slow.faults().add(Fault::once("x", FaultKind::OpenStale));
    let struck = slow.faults().struck();
    assert_eq!(fs::read(slow.path().join("x")).unwrap().len(), 10);
    assert_eq!(slow.faults().struck(), struck + 1);
}

#[test]
fn a_hang_ends_when_it_is_cleared_and_nothing_else_waits() {
    let base = directory();
    Tree::new(base.path()).unwrap().build("stuck=10 other=10").unwrap();
    let slow = fast(base.path());
    slow.faults().add(Fault::once("stuck", FaultKind::ReadHang { duration: Duration::from_secs(60) }));
    thread::scope(|scope| {
        let stuck = scope.spawn(|| fs::read(slow.path().join("stuck")).unwrap().len());
        while slow.faults().struck() == 0 {
            thread::yield_now();
        }
        assert_eq!(fs::read(slow.path().join("other")).unwrap().len(), 10);
        assert!(!stuck.is_finished());
        slow.faults().clear();
        assert_eq!(stuck.join().unwrap(), 10);
    });
}

#[test]
fn it_unmounts_though_files_are_open_and_keeps_what_is_behind() {
    let base = directory();
    let slow = fast(base.path());
    let mount = slow.path().to_owned();
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(mount.join("open")).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    drop(slow);
    assert!(!mount.exists());
    assert_eq!(fs::read(base.path().join("open")).unwrap(), b"kept");
    drop(file);
}
