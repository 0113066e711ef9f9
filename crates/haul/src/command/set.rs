//! `haul chmod`, `chown`, `chgrp`: attributes of names, and with -R of all below them.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::ModeChange;
use haul_core::spill::Sorter;
use haul_core::store::MetaSpec;
use haul_core::survey::{Descend, Survey};
use haul_run::open::{self, Argument, Opened};
use haul_run::owners;

use super::Claimed;
use super::files::Failures;
use crate::flags::Global;
use crate::flags::set::{SetFlags, Setting};
use crate::out;
use crate::render::listing::{Changed, Listed};

/// Names whose attributes are set by one call.
const BATCH: usize = 256;

/// What is to be set, as the numbers of one place.
enum Change<'a> {
    Mode(&'a [ModeChange]),
    Owner(Option<u32>, Option<u32>),
}

impl Change<'_> {
    /// The entry as it is to be and the attributes to set; `None` if it is so already, or nothing of it can be set.
    fn of(&self, entry: &Entry) -> Option<(Entry, MetaMask)> {
        let mut next = entry.clone();
        let owners = MetaMask::OWNER.with(MetaMask::GROUP);
        match self {
            Change::Mode(_) if entry.kind == Kind::Link => None,
            Change::Mode(changes) => {
                next.mode = ModeChange::apply(changes, entry.mode, entry.kind == Kind::Dir);
                next.have = next.have.with(MetaMask::MODE);
                // A setgid bit is kept only where the group is known to be right.
                let keep = MetaMask::MODE.with(MetaMask::SETID).with(entry.have.and(MetaMask::GROUP));
                (next.mode != entry.mode || !entry.have.has(MetaMask::MODE)).then_some((next, keep))
            }
            Change::Owner(uid, gid) => {
                next.uid = uid.unwrap_or(entry.uid);
                next.gid = gid.unwrap_or(entry.gid);
                let mask = |id: &Option<u32>, mask| if id.is_some() { mask } else { MetaMask::NONE };
                let mut keep = mask(uid, MetaMask::OWNER).with(mask(gid, MetaMask::GROUP));
                if entry.have.has(owners) && (next.uid, next.gid) == (entry.uid, entry.gid) {
                    return None;
                }
                next.have = next.have.with(keep);
                // As chown(2) does: a new owner gets no setuid program.
                if entry.kind == Kind::File && entry.mode & 0o6000 != 0 {
                    next.mode = entry.mode & !0o6000;
                    keep = keep.with(MetaMask::MODE).with(MetaMask::SETID);
                }
                Some((next, keep))
            }
        }
    }
}

/// Sets what was asked for at one place; returns how many names failed.
pub fn set(asked: &Argument<'_>, flags: &SetFlags, global: &Global) -> Result<Failures> {
    if asked.location.scheme.keys {
        let e = Error::new(ErrorKind::Unsupported, "set attributes").at(&asked.path);
        let e = e.because("objects have no modes and owners of files");
        return Err(e.hint("access is granted by the bucket's policy, or by --acl of haul cp; -a keeps files' modes in metadata"));
    }
    let (opened, entry) =
        if flags.links_themselves && !asked.location.trailing_slash { open::itself(asked)? } else { open::followed(asked)? };
    let change = match &flags.setting {
        Setting::Mode(changes) => Change::Mode(changes),
        Setting::Owner(owner) => {
            let (user, group) = owners::numbers(&*opened.store, owner).map_err(|e| e.at(&asked.path))?;
            Change::Owner(user, group)
        }
    };
    let setter = Setter { asked, opened: &opened, change, global, state: Mutex::default() };
    if flags.recursive && entry.kind == Kind::Dir {
        setter.tree(&entry)?
    } else {
        setter.now(vec![entry])
    }
    let state = setter.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.unwritten {
        Some(e) => Err(Error::io(e, "write")),
        None => Ok(state.failures),
    }
}

#[derive(Default)]
struct SetterState {
    waiting: Vec<Entry>,
    failures: Failures,
    unwritten: Option<io::Error>,
}

struct Setter<'a> {
    asked: &'a Argument<'a>,
    opened: &'a Opened,
    change: Change<'a>,
    global: &'a Global,
    state: Mutex<SetterState>,
}

impl Setter<'_> {
    fn state(&self) -> std::sync::MutexGuard<'_, SetterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory and all below it. A directory that is to lose permissions of its owner gets its mode after everything in it, one that
    /// gains them before.
    fn tree(&self, top: &Entry) -> Result<()> {
        let spill = std::env::temp_dir();
        let late = Mutex::new(Sorter::new(&spill, 8 << 20, |a, b| b.cmp(a)));
        let visit = |entry: &Entry| {
            let changed = self.change.of(entry);
            let owners_bits = |mode: u32| mode & 0o700;
            match &changed {
                Some((next, _)) if entry.kind == Kind::Dir && owners_bits(entry.mode) & !next.mode != 0 => {
                    if let Err(e) = late.lock().unwrap_or_else(PoisonError::into_inner).push(&entry.name.path()) {
                        self.fail(&Error::io(e, "spill"));
                    }
                }
                Some((next, _)) if entry.kind == Kind::Dir && owners_bits(next.mode) & !entry.mode != 0 => self.now(vec![entry.clone()]),
                Some(_) => self.soon(entry),
                None => {}
            }
            Descend::Yes
        };
        let _descends = visit(top);
        let dir = if self.opened.leaf.is_some() { top.name.dir.child(&top.name.leaf) } else { Dir::root() };
        let cancel = Cancel::default();
        let survey =
            Survey { store: &*self.opened.store, threads: open::processors(), want: MetaMask::NONE, cancel: &cancel, spill: &spill };
        survey.run(&dir, &visit, &|e, _| self.fail(&e))?;
        let rest = std::mem::take(&mut self.state().waiting);
        self.now(rest);
        for path in late.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(|e| Error::io(e, "sort"))? {
            let path = path.map_err(|e| Error::io(e, "sort"))?;
            let Some(name) = Name::parse(&Dir::root(), &path) else { continue };
            match self.opened.store.stat(&name, MetaMask::NONE) {
                Ok(entry) => self.now(vec![entry]),
                Err(e) => self.fail(&e.on(&name)),
            }
        }
        Ok(())
    }

    fn soon(&self, entry: &Entry) {
        let mut state = self.state();
        state.waiting.push(entry.clone());
        if state.waiting.len() >= BATCH {
            let batch = std::mem::take(&mut state.waiting);
            drop(state);
            self.now(batch);
        }
    }

    fn now(&self, entries: Vec<Entry>) {
        let changes: Vec<(Entry, MetaMask)> = entries.iter().filter_map(|entry| self.change.of(entry)).collect();
        let specs: Vec<MetaSpec<'_>> = changes.iter().map(|(entry, keep)| MetaSpec { name: &entry.name, entry, keep: *keep }).collect();
        for (result, (entry, keep)) in self.opened.store.set_meta(&specs).into_iter().zip(&changes) {
            match result {
                Err(e) => self.fail(&self.named(e, entry)),
                Ok(landed) => {
                    // A place that has no such bits refuses them also where there are none to set.
                    let special = if entry.mode & 0o7000 == 0 { MetaMask::SETID } else { MetaMask::NONE };
                    let refused = landed.refused.and(*keep).without(special);
                    if refused.is_empty() {
                        self.tell(entry);
                    } else {
                        let e = Error::new(ErrorKind::Denied, "set attributes");
                        self.fail(&self.named(e.because(self.why(entry, refused)), entry));
                    }
                }
            }
        }
    }

    fn why(&self, entry: &Entry, refused: MetaMask) -> String {
        let what = refused.words().join(" and ");
        match entry.kind {
            Kind::Link if !self.opened.store.caps().attributes.link_sets.has(refused) => {
                format!("this system cannot set the {what} of a symlink")
            }
            _ => format!("{what} not permitted: another user owns it, or the file system does not support it"),
        }
    }

    /// Of the argument itself the path as it was written.
    fn named(&self, e: Error, entry: &Entry) -> Error {
        let below = self.below(entry);
        if below.is_empty() { e.at(&self.asked.path) } else { e.at(&[&self.asked.path[..], b"/", &below].concat()) }
    }

    /// The path below the argument.
    fn below(&self, entry: &Entry) -> Vec<u8> {
        let path = entry.name.path();
        match self.opened.leaf {
            None => path,
            Some(_) => path.iter().position(|byte| *byte == b'/').map_or(Vec::new(), |at| path[at + 1..].to_vec()),
        }
    }

    fn fail(&self, e: &Error) {
        self.state().failures += 1;
        out::failure(e);
    }

    fn tell(&self, entry: &Entry) {
        let below = self.below(entry);
        if self.global.json {
            let mut line = Vec::new();
            let written = Listed::Changed(Changed::of(&self.asked.path, &below, entry)).write(&mut line);
            if let Err(e) = written.and_then(|()| Claimed::default().write_all(&line))
                && e.kind() != io::ErrorKind::BrokenPipe
            {
                self.state().unwritten.get_or_insert(e);
            }
        } else if self.global.verbose > 0 {
            let path = if below.is_empty() { self.asked.path.clone() } else { [&self.asked.path[..], b"/", &below].concat() };
            out::say_plainly(&match self.change {
                Change::Mode(_) => format!("mode {:04o} {}", entry.mode, show(&path)),
                Change::Owner(..) => format!("owner {}:{} {}", entry.uid, entry.gid, show(&path)),
            });
        }
    }
}
