//! What `rm` and `rb` say of each name that went or would go: people read it on standard error, programs on standard output.

use std::io;
use std::sync::{Mutex, PoisonError};

use haul_core::entry::{Entry, Kind, show};
use haul_core::error::Error;
use haul_run::scope::Scope;
use haul_s3::admin::Gone;

use crate::exit::Exit;
use crate::flags::Global;
use crate::out;
use crate::rank_lines::Stream;
use crate::render::listing::{Listed, Removed};

/// Of one command; names come from any thread.
pub struct Reporter {
    json: bool,
    named: bool,
    dry: bool,
    /// Why the first line that was lost could not be written.
    unwritten: Mutex<Option<io::Error>>,
}

impl Reporter {
    pub fn new(global: &Global, dry: bool) -> Self {
        Reporter { json: global.json, named: global.verbose > 0 || dry, dry, unwritten: Mutex::new(None) }
    }

    /// `id`: the version or the upload.
    fn name(&self, path: &[u8], id: &str) {
        if self.named {
            let word = if self.dry { "would remove" } else { "removed" };
            // An object from before versions were kept has the version "null".
            let id = if matches!(id, "" | "null") { String::new() } else { format!(" ({})", show(id.as_bytes())) };
            out::say_plainly(&format!("{word} {}{id}", show(path)));
        }
    }

    fn tell(&self, removed: Removed<'_>) {
        let mut line = Vec::new();
        let written = Listed::Removed(removed).write(&mut line).and_then(|()| out::write(Stream::Out, &line));
        if let Err(e) = written
            && e.kind() != io::ErrorKind::BrokenPipe
        {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
    }

    pub fn entry(&self, place: &[u8], entry: &Entry) {
        let path = entry.name.path();
        if self.json {
            // The first part is the argument's own name.
            let below = path.iter().position(|byte| *byte == b'/').map_or(&b""[..], |at| &path[at + 1..]);
            return self.tell(Removed::of(place, below, entry.kind, self.dry));
        }
        self.name(&path, "");
    }

    pub fn key(&self, place: &[u8], scope: &Scope, gone: Gone<'_>) {
        match gone {
            Gone::Key(key, version) if self.json => {
                let kind = if key.ends_with(b"/") { Kind::Dir } else { Kind::File };
                self.tell(Removed::of_key(place, scope.below(key), kind, version, self.dry));
            }
            Gone::Upload(key, id) if self.json => self.tell(Removed::of_upload(place, scope.below(key), id, self.dry)),
            Gone::Bucket if self.json => self.tell(Removed::of_bucket(place, self.dry)),
            Gone::Key(key, id) | Gone::Upload(key, id) => self.name(&scope.address(key), id),
            Gone::Bucket => self.name(place, ""),
        }
    }

    /// The last word of the command.
    pub fn end(self, exit: Exit) -> Exit {
        if self.dry {
            out::say_plainly("DRY RUN: nothing was removed");
        }
        match self.unwritten.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(e) => exit.or_worse(out::error(&Error::io(e, "write"))),
            None => exit,
        }
    }
}
