//! Copies a flat directory of small files with two threads: by bundles of the local store, or by the bare system
//! calls that they consist of. `small_files store|stat|keep|bare|names SRC DST [FILES]`, `FILES` a bundle; prints seconds.

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::store::{Flow, Found, Store};
use haul_stores::local::{Local, Options};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};

const THREADS: usize = 2;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    rustix::process::umask(Mode::empty());
    let args: Vec<String> = std::env::args().collect();
    let [_, how, from, to, rest @ ..] = &args[..] else { return Err("usage: small_files HOW SRC DST [FILES]".into()) };
    let files = rest.first().map_or(Ok(160), |text| text.parse())?;
    let begun = Instant::now();
    match how.as_str() {
        "bare" => bare(from, to, files)?,
        how => by_store(how, from, to, files)?,
    }
    println!("{:.3}", begun.elapsed().as_secs_f64());
    Ok(())
}

fn by_store(how: &str, from: &str, to: &str, files: usize) -> Result<(), Failure> {
    let options = Options { umask: 0, ..Options::default() };
    let (source, target) = (Local::open(Path::new(from), options)?, Local::open(Path::new(to), options)?);
    let mut keep = MetaMask::MTIME.with(MetaMask::MODE);
    if how == "keep" {
        keep = target.caps().sets;
    }
    let root = Dir::root();
    let mut entries = Vec::new();
    source.list(&root, &mut |found| {
        entries.extend(found.ok().filter(|entry| entry.kind == Kind::File));
        Flow::Go
    })?;
    let queue = Mutex::new(entries);
    let work = || -> Result<(), Failure> {
        let mut bundle = Bundle { keep, direct: how != "names", ..Bundle::default() };
        loop {
            let mut some: Vec<Entry> = {
                let mut queue = queue.lock().map_err(|_| "poisoned")?;
                let left = queue.len().saturating_sub(files);
                queue.split_off(left)
            };
            if some.is_empty() {
                return Ok(());
            }
            if how == "stat" {
                let leaves: Vec<&[u8]> = some.iter().map(|entry| &*entry.name.leaf).collect();
                let found = source.stat_many(&root, &leaves, MetaMask::BASIC, false);
                some = found.into_iter().filter_map(|found| if let Found::Entry(entry) = found { Some(entry) } else { None }).collect();
            }
            bundle.clear();
            some.into_iter().for_each(|entry| bundle.push(entry));
            source.get_bundle(&mut bundle);
            target.put_bundle(&mut bundle);
            if let Some(item) = bundle.items.iter().find(|item| !matches!(item.outcome, Outcome::Landed(_))) {
                return Err(format!("{:?}", item.outcome).into());
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}

fn bare(from: &str, to: &str, files: usize) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let source = rustix::fs::open(from, flags, Mode::empty())?;
    let target = rustix::fs::open(to, flags, Mode::empty())?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in rustix::fs::Dir::read_from(&source)? {
        let entry = entry?;
        if entry.file_type() == rustix::fs::FileType::RegularFile {
            names.push(entry.file_name().to_bytes().into());
        }
    }
    let queue = Mutex::new(names);
    let work = || -> Result<(), Failure> {
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            let some = {
                let mut queue = queue.lock().map_err(|_| "poisoned")?;
                let left = queue.len().saturating_sub(files);
                queue.split_off(left)
            };
            if some.is_empty() {
                return Ok(());
            }
            for name in some {
                let fd = rustix::fs::openat(&source, &name[..], OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
                let count = rustix::io::read(&fd, &mut buffer)?;
                let st = rustix::fs::fstat(&fd)?;
                drop(fd);
                let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&target, &name[..], new, Mode::from_raw_mode(st.st_mode & 0o777))?;
                rustix::io::write(&fd, &buffer[..count])?;
                let times = Timestamps {
                    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
                    last_modification: Timespec { tv_sec: st.st_mtime, tv_nsec: st.st_mtime_nsec as _ },
                };
                rustix::fs::futimens(&fd, &times)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}
