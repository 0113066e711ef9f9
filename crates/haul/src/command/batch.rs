//! `haul run`: many command lines in one process, which share their connections.
//!
//! A line is read when a worker is free for it, so that a list without end takes no memory. There is no shell: a word is what
//! stands between blanks, quotes taken off.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::OpenOptions;
use haul_core::place::provider::Access;
use haul_core::spec::Input;
use haul_run::hosts::Hosts;
use haul_run::location::{self, Scheme};
use haul_run::wild;

use crate::exit::Exit;
use crate::flags::global::Progress;
use crate::flags::{BatchFlags, Command, CopyFlags, Global, Invocation, JobsCommand, Parsed};
use crate::{out, text};

/// Bytes of a line: some hundred names.
const LINE_MOST: u64 = 1 << 20;

/// Failed lines that are named at the end.
const NAMED: usize = 20;

/// What all workers share.
struct Batch<'a> {
    lines: Mutex<Lines>,
    flags: &'a BatchFlags,
    global: &'a Global,
    stop: Arc<AtomicBool>,
    copies: Arc<AtomicUsize>,
    ended: Mutex<Ended>,
}

/// How the lines so far have ended.
struct Ended {
    worst: Exit,
    failed: u64,
    /// The first of them: number, code and text.
    named: Vec<(u64, u8, String)>,
}

/// The lines that nobody has taken yet.
struct Lines {
    from: From,
    number: u64,
}

enum From {
    Stdin,
    File(io::BufReader<std::fs::File>),
}

impl Lines {
    /// The next line that is not blank, with its number, from 1 on.
    fn next(&mut self) -> Option<io::Result<(u64, Vec<u8>)>> {
        loop {
            let mut line = Vec::new();
            let read = match &mut self.from {
                From::Stdin => io::stdin().lock().take(LINE_MOST).read_until(b'\n', &mut line),
                From::File(file) => file.take(LINE_MOST).read_until(b'\n', &mut line),
            };
            match read {
                Ok(0) => return None,
                Err(e) => return Some(Err(e)),
                Ok(_) => self.number += 1,
            }
            let text = line.trim_ascii();
            if line.len() as u64 == LINE_MOST && !line.ends_with(b"\n") {
                return Some(Err(io::Error::new(io::ErrorKind::InvalidData, format!("line {} is too long", self.number))));
            }
            if !text.is_empty() && !text.starts_with(b"#") {
                return Some(Ok((self.number, text.to_vec())));
            }
        }
    }
}

/// Runs the lines of a file. The exit is that of the worst line.
pub fn run(flags: &BatchFlags, global: &Global) -> Exit {
    let from = match &flags.from {
        Input::Stdin => From::Stdin,
        Input::File(path) => match std::fs::File::open(path) {
            Ok(file) => From::File(io::BufReader::new(file)),
            Err(e) => return out::error(&Error::io(e, "open").at(path.as_os_str().as_bytes())),
        },
    };
    let (stop, copies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    if let Err(e) = listen(stop.clone(), copies.clone()) {
        return out::error(&e);
    }
    let batch = Batch {
        lines: Mutex::new(Lines { from, number: 0 }),
        flags,
        global,
        stop,
        copies,
        ended: Mutex::new(Ended { worst: Exit::Success, failed: 0, named: Vec::new() }),
    };
    std::thread::scope(|scope| {
        for _ in 1..flags.jobs {
            // Fewer threads do the same work.
            let _spawned = std::thread::Builder::new().name("haul-run".into()).spawn_scoped(scope, || batch.work());
        }
        batch.work();
    });
    let mut ended = batch.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    if ended.failed > 0 {
        // Several lines at once end in any order.
        ended.named.sort_unstable();
        out::say(&format!("{} failed:", text::things(ended.failed, "line")));
        ended.named.iter().for_each(|(number, code, line)| out::say(&format!("  line {number} ({code}): {line}")));
        if ended.failed > ended.named.len() as u64 {
            out::say(&format!("  and {} more", ended.failed - ended.named.len() as u64));
        }
    }
    ended.worst
}

impl Batch<'_> {
    fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let next = self.lines.lock().unwrap_or_else(PoisonError::into_inner).next();
            let (number, line) = match next {
                None => return,
                Some(Ok(next)) => next,
                Some(Err(e)) => return self.ends(out::error(&Error::io(e, "read the commands")), None),
            };
            let shown = show(&line);
            if self.flags.jobs == 1 && !self.global.quiet {
                out::say(&format!("line {number}: {shown}"));
            }
            let exit = self.line(&line);
            if exit != Exit::Success {
                out::say(&format!("line {number}: failed ({}): {shown}", exit.code()));
            } else if self.flags.jobs > 1 && !self.global.quiet {
                out::say(&format!("line {number}: done: {shown}"));
            }
            self.ends(exit, Some((number, shown)));
        }
    }

    /// `line` is its number and text.
    fn ends(&self, exit: Exit, line: Option<(u64, String)>) {
        if exit == Exit::Success {
            return;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.worst = ended.worst.or_worse(exit);
        if let Some((number, line)) = line {
            ended.failed += 1;
            if ended.named.len() < NAMED {
                ended.named.push((number, exit.code(), line));
            }
        }
        if self.flags.exit_on_error || exit == Exit::Signal {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn line(&self, line: &[u8]) -> Exit {
        let refuse = |reason: &str| {
            out::complain(&format!("error: {reason}\n").into(), false);
            Exit::Usage
        };
        if line.starts_with(b"{") {
            return match std::str::from_utf8(line).map_err(|_| "a transfer spec is UTF-8") {
                Ok(text) => self.spec(text),
                Err(reason) => refuse(reason),
            };
        }
        let words = match words(line) {
            Ok(words) => words,
            Err(reason) => return refuse(reason),
        };
        // A line that was copied from a terminal begins with the program's name.
        let begin = usize::from(words.first().is_some_and(|word| word.text == "haul"));
        let argv = match expanded(&words[begin..]) {
            Ok(argv) => argv,
            Err(e) => return out::error(&e),
        };
        let invocation = match crate::parse(&argv, self.global.umask) {
            Ok(Parsed::Run(invocation)) => *invocation,
            Ok(Parsed::Print(text)) => {
                let _read = out::print_text(&text, self.global.color);
                return Exit::Success;
            }
            Err(e) => {
                out::complain(&e.text, self.global.color);
                return e.exit;
            }
        };
        match refusal(&invocation.command, &self.flags.from) {
            Some(reason) => refuse(reason),
            None => self.perform(invocation),
        }
    }

    /// A transfer as `haul jobs show --json` prints it.
    fn spec(&self, text: &str) -> Exit {
        match CopyFlags::of_record(text) {
            Ok(flags) => {
                let command = Command::Copy(Box::new(flags));
                match refusal(&command, &self.flags.from) {
                    Some(reason) => out::error(&Error::new(ErrorKind::Usage, "read the transfer spec").because(reason)),
                    None => self.perform(Invocation { global: Global { argv: Vec::new(), ..self.global.clone() }, command }),
                }
            }
            Err(e) => out::error(&e),
        }
    }

    fn perform(&self, mut invocation: Invocation) -> Exit {
        let global = &mut invocation.global;
        global.color &= self.global.color;
        global.state_dir = global.state_dir.take().or_else(|| self.global.state_dir.clone());
        global.log = global.log.take().or_else(|| self.global.log.clone());
        global.json |= self.global.json;
        // What several lines draw or count at once nobody can read; each says how it ended.
        global.quiet |= self.global.quiet || (self.flags.jobs > 1 && global.verbose == 0);
        if self.flags.jobs > 1 && global.progress == Progress::Auto {
            global.progress = Progress::Every(std::time::Duration::from_secs(3600));
        }
        let copies = matches!(invocation.command, Command::Copy(_) | Command::Check(_));
        if copies {
            self.copies.fetch_add(1, Ordering::SeqCst);
        }
        let exit = crate::dispatch(invocation, None);
        if copies {
            self.copies.fetch_sub(1, Ordering::SeqCst);
        }
        exit
    }
}

/// Why a command is not for a line of a file.
fn refusal(command: &Command, from: &Input) -> Option<&'static str> {
    let stdin = match command {
        Command::Batch(_) | Command::Agent(_) | Command::Demo(_) | Command::Jobs(JobsCommand::Resume(_)) => {
            return Some("this command is not for a line of haul run");
        }
        Command::Copy(flags) => {
            flags.spec.sources.iter().any(|place| place.scheme == Scheme::STDIO) || flags.spec.selection.readers_of_stdin() > 0
        }
        Command::Check(flags) => flags.spec.selection.readers_of_stdin() > 0,
        Command::Cat(flags) => flags.places.iter().any(|place| place.scheme == Scheme::STDIO),
        _ => false,
    };
    (stdin && *from == Input::Stdin).then_some("standard input has the command lines; keep them in a file")
}

/// A signal begins no other line. Copies that are at work stop by themselves; where there are none, and at a second signal, it
/// ends here.
fn listen(stop: Arc<AtomicBool>, copies: Arc<AtomicUsize>) -> Result<()> {
    crate::signals::listen(move || stop.swap(true, Ordering::SeqCst) || copies.load(Ordering::SeqCst) == 0)
}

/// A word of a line.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: OsString,
    /// It has wildcards, none of them in quotes or behind a backslash.
    is_pattern: bool,
}

/// The words as arguments. Local patterns become the names that they match, as in a shell; the value of an option stays what it is.
fn expanded(words: &[Word]) -> Result<Vec<OsString>> {
    let mut argv = vec![OsString::from("haul")];
    let definitions = crate::flags::definitions();
    let command = words.iter().find_map(|word| definitions.find_subcommand(&word.text));
    let hosts = Hosts::new(&Access::default()).printing(out::say);
    let mut is_value = false;
    for word in words {
        let location = (word.is_pattern && !is_value && !word.text.as_bytes().starts_with(b"-"))
            .then(|| location::parse(&word.text, &|path| path.symlink_metadata().is_ok()).ok())
            .flatten()
            .filter(|location| location.scheme == Scheme::LOCAL);
        let found = location.map(|location| wild::matches(&location, &hosts, OpenOptions::default())).transpose();
        match found {
            Ok(Some(Some(found))) => argv.extend(found.into_iter().map(|found| OsString::from_vec(found.location.to_bytes()))),
            // Nothing matches: the word is what it is, and is looked for.
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => argv.push(word.text.clone()),
        }
        is_value = command.is_some_and(|command| takes_value(command, word.text.as_bytes()));
    }
    Ok(argv)
}

/// Whether the word behind this one is its value.
fn takes_value(command: &clap::Command, word: &[u8]) -> bool {
    let Ok(word) = std::str::from_utf8(word) else { return false };
    let takes = |arg: &&clap::Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    let found = match (word.strip_prefix("--"), word.strip_prefix('-')) {
        (Some(long), _) => {
            command.get_arguments().find(|arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)))
        }
        (None, Some(cluster)) => cluster.chars().last().and_then(|last| {
            command.get_arguments().find(|arg| arg.get_short_and_visible_aliases().is_some_and(|names| names.contains(&last)))
        }),
        _ => None,
    };
    found.as_ref().is_some_and(takes)
}

/// Splits a line as a shell would that knows quotes and backslashes and nothing else. A `#` at the beginning of a word ends it.
fn words(line: &[u8]) -> Result<Vec<Word>, &'static str> {
    const OPEN: &str = "a quote has no end on this line";
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    // Wildcards in the word: outside of quotes, and those that mean themselves.
    let (mut open, mut literal) = (false, false);
    let wild = |byte: u8| b"*?[".contains(&byte);
    let mut take = |word: &mut Option<Vec<u8>>, open: &mut bool, literal: &mut bool| {
        let is_pattern = std::mem::take(open) & !std::mem::take(literal);
        words.extend(word.take().map(|text| Word { text: OsString::from_vec(text), is_pattern }));
    };
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' => take(&mut word, &mut open, &mut literal),
            b'#' if word.is_none() => break,
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next().ok_or(OPEN)? {
                        b'\'' => break,
                        byte => {
                            literal |= wild(byte);
                            word.push(byte);
                        }
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next().ok_or(OPEN)? {
                        b'"' => break,
                        b'\\' => match bytes.next().ok_or(OPEN)? {
                            byte @ (b'"' | b'\\' | b'$' | b'`') => word.push(byte),
                            byte => {
                                literal |= wild(byte);
                                word.extend([b'\\', byte]);
                            }
                        },
                        byte => {
                            literal |= wild(byte);
                            word.push(byte);
                        }
                    }
                }
            }
            b'\\' => {
                let byte = bytes.next().ok_or("the line ends with a backslash")?;
                literal |= wild(byte);
                word.get_or_insert_default().push(byte);
            }
            byte => {
                open |= wild(byte);
                word.get_or_insert_default().push(byte);
            }
        }
    }
    take(&mut word, &mut open, &mut literal);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        words(line.as_bytes()).expect(line).into_iter().map(|word| word.text.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, expected) in [
            ("cp a b", vec!["cp", "a", "b"]),
            ("  cp\t a   b\r", vec!["cp", "a", "b"]),
            ("cp 'a b' \"c d\" e\\ f", vec!["cp", "a b", "c d", "e f"]),
            ("cp 'it'\"'\"'s' ''", vec!["cp", "it's", ""]),
            ("rm \"a\\\"b\\n\" # the rest 'is open", vec!["rm", "a\"b\\n"]),
            ("rm a#b '#c' \\#d", vec!["rm", "a#b", "#c", "#d"]),
            ("rm $HOME `x` *;y", vec!["rm", "$HOME", "`x`", "*;y"]),
            ("# nothing", vec![]),
        ] {
            assert_eq!(split(line), expected, "{line}");
        }
        for line in ["cp 'a", "cp \"a\\\"", "cp \"a\\", "cp a\\"] {
            assert!(words(line.as_bytes()).is_err(), "{line}");
        }
        let last = words(b"rm \xff\\\xfe").expect("words").pop().expect("two");
        assert_eq!(last, Word { text: OsString::from_vec(b"\xff\xfe".to_vec()), is_pattern: false });
        let patterns = |line: &[u8]| words(line).expect("words").iter().map(|word| word.is_pattern).collect::<Vec<_>>();
        assert_eq!(patterns(b"a* 'b'? 'c*' d\\* \"e*\"* f"), [true, true, false, false, false, false]);
    }
}
