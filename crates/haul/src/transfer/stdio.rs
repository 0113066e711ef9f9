//! `cp - FILE` and `cp FILE... -`: standard input and output; files of web servers that do not report a length, which are streams
//! as well; and devices and pipes as destinations, which take bytes and have no content.

use haul_core::place::{OpenOptions, Role};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::{Entry, Kind, MetaMask, Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::{Algorithm, Hasher};
use haul_core::meter::Meter;
use haul_core::retry::Tries;
use haul_core::rlimit;
use haul_core::store::{Chunk, Receipt, Sink, Source, Spec, WriteStyle, chunk_size};
use haul_stores::web;

use crate::exit::Exit;
use crate::flags::{CopyFlags, Global};
use crate::hosts::Hosts;
use crate::location::{Location, Scheme};
use crate::open::Opened;
use crate::{command, open, out, units};

/// Bytes that are read and written at once.
const PIECE: usize = 1 << 20;

/// `None` where neither end is `-`.
pub fn copy(flags: &CopyFlags, global: &Global) -> Option<Result<Exit>> {
    let destination = flags.destination.as_ref()?;
    if destination.scheme == Scheme::STDIO {
        return Some(to_stdout(flags));
    }
    if let Some(place) = special(destination).filter(|_| !flags.policy.force && flags.sources.len() == 1) {
        return Some(into_special(&place, flags, global));
    }
    flags.sources.iter().any(|s| s.scheme == Scheme::STDIO).then(|| from_stdin(flags, destination, global))
}

fn to_stdout(flags: &CopyFlags) -> Result<Exit> {
    if flags.dry {
        let message = format!("would write {} to standard output\nDRY RUN: nothing was copied\n", units::count(flags.sources.len() as u64));
        out::complain(&message.into(), false);
        return Ok(Exit::Success);
    }
    let hosts = Hosts::new(&flags.connect);
    let mut to = io::BufWriter::with_capacity(PIECE, io::stdout().lock());
    for source in &flags.sources {
        if source.means_contents() {
            let e = Error::new(ErrorKind::Usage, "read").at(&source.path).because("is a directory");
            return Err(e.hint("name a file"));
        }
        command::files::cat(&open::Argument::new(source, &hosts), &mut to)?;
    }
    to.flush().map_err(|e| Error::io(e, "write"))?;
    Ok(Exit::Success)
}

/// The device, pipe or socket that the address names.
fn special(destination: &Location) -> Option<PathBuf> {
    if destination.is_remote() || destination.scheme == Scheme::STDIO || destination.means_contents() {
        return None;
    }
    let place = open::path_of(&destination.path);
    place.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()).then_some(place)
}

/// Writes the one source into a character device or a pipe, as cp(1) does; it is never replaced by a file.
fn into_special(place: &Path, flags: &CopyFlags, global: &Global) -> Result<Exit> {
    let bytes = place.as_os_str().as_bytes();
    let refuse = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(bytes).because(reason.to_string());
        Err(e.hint(hint.to_string()))
    };
    let kind = place.metadata().map_err(|e| Error::io(e, "open").at(bytes))?.file_type();
    if !kind.is_char_device() && !kind.is_fifo() {
        return refuse("is a block device or a socket", "use dd to write to a block device; --force replaces it with a file");
    }
    if flags.verify {
        return refuse("is a device or a pipe, which cannot be read back", "--verify, --remove-source-files and mv need a file");
    }
    if !global.quiet {
        let source = flags.sources.first().map(ToString::to_string).unwrap_or_default();
        out::complain(&format!("copies {} to {}\n", show(source.as_bytes()), show(bytes)).into(), false);
    }
    if flags.dry {
        out::complain(&"DRY RUN: nothing was copied\n".to_string().into(), false);
        return Ok(Exit::Success);
    }
    let failed = |e| Error::io(e, "write").at(bytes);
    let to = std::fs::OpenOptions::new().write(true).open(place).map_err(failed)?;
    let mut to = io::BufWriter::with_capacity(PIECE, to);
    let hosts = Hosts::new(&flags.connect);
    for source in &flags.sources {
        if source.scheme == Scheme::STDIO {
            io::copy(&mut io::stdin().lock(), &mut to).map_err(failed)?;
        } else {
            command::files::cat(&open::Argument::new(source, &hosts), &mut to)?;
        }
    }
    to.flush().map_err(failed)?;
    Ok(Exit::Success)
}

/// Bytes from start to end, whose number nobody knows before.
struct Input {
    reader: Box<dyn Read>,
    shown: String,
    /// The operation of errors.
    op: &'static str,
    /// What it is called in a directory.
    name: Option<Vec<u8>>,
    /// `None` is now.
    modified: Option<Time>,
}

fn hosts(flags: &CopyFlags, global: &Global) -> Hosts {
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).patient(flags.run.timeout);
    hosts.compressing(flags.transport.compress).streaming(flags.transport.streams)
}

fn from_stdin(flags: &CopyFlags, destination: &Location, global: &Global) -> Result<Exit> {
    let input = Input {
        reader: Box::new(io::stdin().lock()),
        shown: "standard input".into(),
        op: "read standard input",
        name: None,
        modified: None,
    };
    from_input(input, flags, destination, &hosts(flags, global), global)
}

/// Copies the one source as a stream if `refused` says that its server does not report its length; `None` otherwise.
pub fn from_web(refused: &Error, flags: &CopyFlags, global: &Global) -> Option<Result<Exit>> {
    let ([source], Some(destination), None) = (&flags.sources[..], &flags.destination, &flags.listed.files_from) else { return None };
    if !web::has_no_length(refused) || flags.remove_source {
        return None;
    }
    let copied = || {
        let hosts = hosts(flags, global);
        let host = hosts.reach(source)?;
        let host_path = host.path(source);
        let host = (&*host as &dyn std::any::Any).downcast_ref::<web::WebHost>();
        let stream = host.ok_or_else(|| refused.again())?.stream(&host_path)?;
        let input =
            Input { reader: stream.reader, shown: source.to_string(), op: "read", name: Some(stream.name), modified: stream.modified };
        from_input(input, flags, destination, &hosts, global)
    };
    Some(copied())
}

/// Written beside the final name, which appears with the last byte; an interruption leaves nothing.
fn from_input(input: Input, flags: &CopyFlags, destination: &Location, hosts: &Hosts, global: &Global) -> Result<Exit> {
    let host = hosts.reach(destination)?;
    let mut path = host.path(destination);
    let shown = if destination.is_remote() { destination.to_string() } else { show(&super::places::absolute(&destination.path)) };
    if destination.means_contents() || host.lookup(&path)? == Some(Kind::Dir) {
        let Some(name) = &input.name else {
            let e = Error::new(ErrorKind::Usage, "copy to").at(&destination.to_bytes());
            let e = e.because("is a directory, and standard input has no name");
            return Err(e.hint("append a file name"));
        };
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    if !destination.is_remote() {
        // What a link names is meant, as with a shell's redirection.
        path = std::fs::canonicalize(open::path_of(&path)).map_or(path, |real| real.into_os_string().into_vec());
    }
    if !global.quiet {
        let reached = hosts.sentence();
        let space = if reached.is_empty() { "" } else { " " };
        out::complain(&format!("copies {} to {shown}{space}{reached}\n", input.shown).into(), false);
    }
    if flags.dry {
        out::complain(&"DRY RUN: nothing was copied\n".to_string().into(), false);
        return Ok(Exit::Success);
    }
    let above = host.split(&path).0;
    if flags.make_path && host.lookup(above)? != Some(Kind::Dir) {
        host.make_dir(above, true)?;
    }
    let options = OpenOptions { role: Role::Destination, umask: Some(global.umask), ..OpenOptions::default() };
    let opened = open::in_parent(&*host, &path, options).map_err(|e| match e.kind() {
        ErrorKind::NotFound => e.hint("--mkpath creates the parent directories"),
        _ => e,
    })?;
    pour_into(&opened, input, flags, global)
}

fn pour_into(opened: &Opened, mut input: Input, flags: &CopyFlags, global: &Global) -> Result<Exit> {
    let began = Instant::now();
    let poured = match opened.store.caps().write {
        WriteStyle::Parts { .. } => pour_parts(opened, &mut input, flags),
        WriteStyle::Anywhere | WriteStyle::InOrder => pour_stream(opened, &mut input, flags),
    };
    let size = poured?;
    if !global.quiet {
        let seconds = began.elapsed();
        let rate = units::rate(size as f64 / seconds.as_secs_f64().max(1e-9));
        let verified = if flags.verify { ", verified" } else { "" };
        let exact = if size < 1000 { String::new() } else { format!(", {} bytes", units::count(size)) };
        let line = format!("{}{exact} in {}, {rate}{verified}\n", units::bytes(size), units::duration(seconds));
        out::complain(&line.into(), false);
    }
    Ok(Exit::Success)
}

/// A file of now, as a shell's redirection would make it, less what the mask takes.
fn new_entry(opened: &Opened, input: &Input) -> Entry {
    let mut entry = Entry::bare(opened.name(), Kind::File);
    entry.mtime = input.modified.unwrap_or_else(now);
    entry.have = if input.modified.is_some() { MetaMask::MTIME } else { MetaMask::NONE };
    entry.mode = 0o666;
    entry
}

fn pour_stream(opened: &Opened, input: &mut Input, flags: &CopyFlags) -> Result<u64> {
    let entry = new_entry(opened, input);
    let spec = Spec { entry: &entry, keep: entry.have, chunk: u64::MAX, in_place: flags.in_place, sync: flags.sync };
    let sink: Arc<dyn Sink> = opened.store.create(&entry.name, &spec)?.into();
    let cancel = Cancel::default();
    listen(cancel.clone(), Arc::new(Mutex::new(Some(sink.clone()))))?;
    let meter = Meter::new(cancel, flags.speed.bwlimit);
    let landed = pour(input, &*sink, &meter, flags.verify).and_then(|size| {
        let whole = Entry { size, ..entry.clone() };
        sink.commit(&whole, &[Receipt { index: 0, tag: Box::default(), hash: None }]).map(|_| size)
    });
    // The first error counts; what is left is the staging file, which every walk passes over.
    landed.inspect_err(|_| drop(sink.abort()))
}

/// Bytes of a part where nobody knows how many there will be: 10,000 of them make 305 GiB.
const PART: u64 = 32 << 20;

/// Where a file is put together from parts: each is read whole before it sets out. Input of one part is an ordinary file.
fn pour_parts(opened: &Opened, input: &mut Input, flags: &CopyFlags) -> Result<u64> {
    let part = chunk_size(flags.transport.chunk.unwrap_or(PART), 0, opened.store.caps().write);
    let cancel = Cancel::default();
    let meter = Meter::new(cancel.clone(), flags.speed.bwlimit);
    let begun = Begun::default();
    listen(cancel, begun.clone())?;
    let mut hasher = flags.verify.then(|| Algorithm::Xxh128.begin());
    let mut bytes = Vec::new();
    let mut entry = new_entry(opened, input);
    let mut next = |bytes: &mut Vec<u8>, meter: &Meter| -> Result<()> {
        bytes.clear();
        (&mut input.reader).take(part).read_to_end(bytes).map_err(|e| Error::from_io(e, input.op))?;
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        meter.take(bytes.len() as u64).map(drop)
    };
    next(&mut bytes, &meter)?;
    entry.have = MetaMask::MTIME;
    if (bytes.len() as u64) < part {
        entry.size = bytes.len() as u64;
        entry.have = entry.have.with(MetaMask::BASIC);
    }
    let spec = Spec { entry: &entry, keep: MetaMask::MTIME, chunk: part, in_place: false, sync: flags.sync };
    let sink: Arc<dyn Sink> = opened.store.create(&entry.name, &spec)?.into();
    *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink.clone());
    let sent = (|| {
        let (mut size, mut receipts) = (0, Vec::new());
        loop {
            let at = size..size + bytes.len() as u64;
            let chunk = Chunk { index: receipts.len() as u32, at: at.clone() };
            let land = || sink.write(at.clone(), &mut &bytes[..]).and_then(|()| sink.landed(&chunk));
            let tag = Tries::begin().call(land)?;
            receipts.push(Receipt { index: chunk.index, tag, hash: None });
            size = at.end;
            if at.end - at.start < part {
                break;
            }
            next(&mut bytes, &meter)?;
            if bytes.is_empty() {
                break;
            }
        }
        sink.commit(&Entry { size, ..entry.clone() }, &receipts).map(|_| size)
    })();
    let size = sent.inspect_err(|_| drop(sink.abort()))?;
    if let Some(hasher) = hasher {
        reread(&*opened.store.reopen(&entry.name)?, size, hasher)?;
    }
    Ok(size)
}

/// Whether what was written reads back as what was read.
fn reread(written: &dyn Source, size: u64, hasher: Hasher) -> Result<()> {
    let mut again = Algorithm::Xxh128.begin();
    let mut reader = written.read(0..size)?;
    let mut buffer = vec![0; PIECE];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => again.update(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from_io(e, "verify")),
        }
    }
    if hasher.finish() != again.finish() {
        return Err(Error::new(ErrorKind::Corrupt, "verify").because("verification failed: the data read back differs"));
    }
    Ok(())
}

/// Reads to the end; returns how much there was.
fn pour(input: &mut Input, sink: &dyn Sink, meter: &Meter, verify: bool) -> Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut hasher = verify.then(|| Algorithm::Xxh128.begin());
    let mut size = 0;
    loop {
        let count = match input.reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                meter.take(0)?;
                continue;
            }
            Err(e) => return Err(Error::from_io(e, input.op)),
        };
        let piece = &buffer[..count];
        if let Some(hasher) = &mut hasher {
            hasher.update(piece);
        }
        sink.write(size..size + count as u64, &mut &piece[..])?;
        size += count as u64;
        meter.take(count as u64)?;
    }
    if let Some(hasher) = hasher {
        reread(&*sink.reread()?, size, hasher)?;
    }
    Ok(size)
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() }
}

/// What is being written, once it was begun.
type Begun = Arc<Mutex<Option<Arc<dyn Sink>>>>;

/// A read of the input may wait for ever: what was written is removed and the program left from here.
fn listen(cancel: Cancel, sink: Begun) -> Result<()> {
    let Ok(mut signals) = signal_hook::iterator::Signals::new(crate::signals::stopping()) else { return Ok(()) };
    let hear = move || {
        if signals.forever().next().is_some() {
            cancel.set(Stop::Signal);
            if let Some(sink) = sink.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let _left = sink.abort();
            }
            out::complain(&"haul: stopped by a signal; nothing was left behind\n".to_string().into(), false);
            std::process::exit(i32::from(Exit::Signal.code()));
        }
    };
    rlimit::spawn("signals", hear).map(|_| ())
}
