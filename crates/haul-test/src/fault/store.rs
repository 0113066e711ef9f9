//! The store behind the rules. A call that takes many names is passed on whole if no rule is for its
//! operation, else name by name.

use std::any::Any;
use std::slice;
use std::sync::Arc;

use haul_core::Result;
use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Headers, Kind, MetaMask, Name};
use haul_core::hash::Algorithm;
use haul_core::lock::lock;
use haul_core::option_set::OptionSet;
use haul_core::store::{
    Caps, Digests, Extensions, Flow, Found, MetaSpec, ObjectOptions, Place, RemoteWork, ServerSide, ServerSideOp, Sink, Source, Spec,
    Store, System, Token, Unfinished, Volume, WriteOutcome,
};
use haul_core::{Error, ErrorKind};

use super::file::{Reading, Writing};
use super::{Fault, Op, What, bent, failure, made};

impl Fault {
    fn source(&self, inner: Box<dyn Source>, name: &Name, op: Op) -> Box<dyn Source> {
        Box::new(Reading { inner, core: self.core.clone(), name: name.clone(), op })
    }

    fn sink(&self, inner: Box<dyn Sink>, name: &Name) -> Box<dyn Sink> {
        Box::new(Writing { inner, core: self.core.clone(), name: name.clone() })
    }

    /// Whether a call on many names may be passed on as it is.
    fn passes(&self, op: Op) -> bool {
        !lock(&self.core.rules).iter().any(|rule| rule.op == op && !rule.is_of_the_call())
    }

    /// Delays and gates of a whole call; an error then belongs to every name in it.
    fn wait(&self, op: Op) -> Result<()> {
        self.core.ask(op, b"", true).map(drop)
    }

    /// A call on many items: passed on whole if no rule is for its operation, else item by item.
    fn many<X, T>(&self, op: Op, items: &[X], name: impl Fn(&X) -> Name, call: impl Fn(&[X]) -> Vec<Result<T>>) -> Vec<Result<T>> {
        let _under = self.core.enter(op, items.len());
        if let Err(e) = self.wait(op) {
            return items.iter().map(|item| Err(e.again().on(&name(item)))).collect();
        }
        if self.passes(op) {
            return call(items);
        }
        items.iter().map(|item| self.core.judge(op, &name(item), || call(slice::from_ref(item)).remove(0))).collect()
    }

    /// What the rules have for each item that is in the given state; failures are the item's outcome at once.
    fn items(&self, op: Op, bundle: &mut Bundle, wanted: fn(&Outcome) -> bool) -> Vec<(usize, What)> {
        let waited = self.wait(op);
        let mut bent = Vec::new();
        for (i, item) in bundle.items.iter_mut().enumerate().filter(|(_, item)| wanted(&item.outcome)) {
            let name = item.entry.name.clone();
            let asked = match &waited {
                Ok(()) => self.core.ask(op, &name.path(), false),
                Err(e) => Err(e.again().on(&name)),
            };
            match asked {
                Ok(None) => {}
                Ok(Some(what @ (What::FlipBit | What::FailAfter(..)))) => bent.push((i, what)),
                Ok(Some(what)) => item.outcome = Outcome::Failed(failure(&what, op, &name).expect("the rest are failures")),
                Err(e) => item.outcome = Outcome::Failed(e),
            }
        }
        bent
    }
}

fn flip(bundle: &mut Bundle, item: usize) {
    let at = bundle.items[item].at.clone();
    if let Some(byte) = bundle.data[at].first_mut() {
        *byte ^= 1;
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Fault {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn place(&self) -> &Place {
        self.inner.place()
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.core.run(Op::Stat, name, || self.inner.stat(name, want))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let look = |leaves: &[&[u8]]| self.inner.stat_many(dir, leaves, want, follow).into_iter().map(Ok).collect();
        let found = |looked: Result<Found>| match looked {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::NotFound => Found::Absent,
            Err(e) => Found::Failed(e),
        };
        self.many(Op::StatMany, leaves, |leaf| Name::new(dir, leaf), look).into_iter().map(found).collect()
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let _under = self.core.enter(Op::List, 1);
        let name = Name::of(dir);
        self.core.ask(Op::List, &name.path(), true)?;
        let what = self.core.ask(Op::List, &name.path(), false)?;
        match &what {
            None | Some(What::FlipBit | What::StopShort | What::FailAfter(..)) => {}
            Some(what) => return Err(failure(what, Op::List, &name).expect("the rest are failures")),
        }
        let short = matches!(what, Some(What::StopShort));
        let watched = self.core.is_watched(Op::ListEntry);
        let mut stopped = false;
        self.inner.list(dir, &mut |found| {
            let found = match found {
                Ok(entry) if watched => {
                    let name = entry.name.clone();
                    let _under = self.core.enter(Op::ListEntry, 1);
                    let asked = |waits| self.core.ask(Op::ListEntry, &name.path(), waits);
                    asked(true).and_then(|_| asked(false)).and_then(|what| {
                        if matches!(what, Some(What::Twice)) {
                            each(Ok(entry.clone()));
                        }
                        bent(what, Op::ListEntry, &name, || Ok(entry))
                    })
                }
                found => found,
            };
            stopped = each(found) == Flow::Stop;
            if short || stopped { Flow::Stop } else { Flow::Go }
        })?;
        match what.and_then(|what| failure(&what, Op::List, &name)) {
            Some(e) if !stopped => Err(e),
            _ => Ok(()),
        }
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        let name = &entry.name;
        self.core.run(Op::Open, name, || Ok(self.source(self.inner.open(entry, follow)?, name, Op::Read)))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        self.core.run(Op::Create, name, || Ok(self.sink(self.inner.create(name, spec)?, name)))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        // What is read past the caches is read back.
        let op = if bundle.past_caches { Op::ReadBack } else { Op::GetBundle };
        let _under = self.core.enter(op, bundle.items.len());
        let bent = self.items(op, bundle, |outcome| matches!(outcome, Outcome::Listed));
        self.inner.get_bundle(bundle);
        for (i, what) in bent.into_iter().filter(|(i, _)| matches!(bundle.items[*i].outcome, Outcome::Read)).collect::<Vec<_>>() {
            let name = bundle.items[i].entry.name.clone();
            match failure(&what, op, &name) {
                Some(e) => bundle.items[i].outcome = Outcome::Failed(e),
                None => flip(bundle, i),
            }
        }
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        let _under = self.core.enter(Op::PutBundle, bundle.items.len());
        let bent = self.items(Op::PutBundle, bundle, |outcome| matches!(outcome, Outcome::Read));
        let flipped: Vec<usize> = bent.iter().filter(|(_, what)| matches!(what, What::FlipBit)).map(|(i, _)| *i).collect();
        flipped.iter().for_each(|i| flip(bundle, *i));
        self.inner.put_bundle(bundle);
        flipped.iter().for_each(|i| flip(bundle, *i));
        for (i, what) in bent {
            let item = &mut bundle.items[i];
            if let Some(e) = failure(&what, Op::PutBundle, &item.entry.name) {
                item.outcome = Outcome::Failed(e);
            }
        }
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.many(Op::MakeDirs, dirs, |(dir, _)| Name::of(dir), |dirs| self.inner.make_dirs(dirs))
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        self.core.run(Op::MakeNode, name, || self.inner.make_node(name, entry, keep))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.core.run(Op::MakeHardLink, name, || self.inner.make_hard_link(name, existing))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        self.many(Op::SetMeta, specs, |spec| spec.name.clone(), |specs| self.inner.set_meta(specs))
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let _under = self.core.enter(Op::ReadXattrs, entries.len());
        if let Err(e) = self.wait(Op::ReadXattrs) {
            return entries.iter().map(|entry| Err(e.again().on(&entry.name))).collect();
        }
        if self.passes(Op::ReadXattrs) {
            return self.inner.read_xattrs(entries, want);
        }
        let one = |entry: &mut Entry| {
            let name = entry.name.clone();
            self.core.judge(Op::ReadXattrs, &name, || self.inner.read_xattrs(slice::from_mut(entry), want).remove(0))
        };
        entries.iter_mut().map(one).collect()
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.many(Op::Remove, entries, |entry| entry.name.clone(), |entries| self.inner.remove(entries))
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.core.run(Op::Rename, from, || self.inner.rename(from, to, replace))
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.core.run(Op::Reopen, name, || Ok(self.source(self.inner.reopen(name)?, name, Op::ReadBack)))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { unfinished: self, server_side: self, digests: self, options: self, system: self, ..self.inner.extensions() }
    }
}

impl Unfinished for Fault {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        self.core.run(Op::Attach, name, || Ok(self.sink(self.inner.extensions().unfinished.attach(name, token, spec)?, name)))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        self.inner.extensions().unfinished.staging(entry)
    }

    fn staged(&self, entry: &Entry, token: &Token) -> Option<Token> {
        self.inner.extensions().unfinished.staged(entry, token)
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        self.core.run(Op::Abandon, name, || self.inner.extensions().unfinished.abandon(name, token))
    }

    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        self.inner.extensions().unfinished.abandon_all(dir)
    }
}

impl ServerSide for Fault {
    fn copies(&self, from: &dyn Store, size: u64) -> bool {
        let from = (from as &dyn Any).downcast_ref::<Fault>().map_or(from, |fault| &*fault.inner);
        self.inner.extensions().server_side.copies(from, size)
    }

    fn copy_staging(&self, entry: &Entry) -> Option<Token> {
        self.inner.extensions().server_side.copy_staging(entry)
    }

    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        let from = (from as &dyn Any).downcast_ref::<Fault>().map_or(from, |fault| &*fault.inner);
        self.core.run(Op::Take, to, || self.inner.extensions().server_side.perform(from, entry, to, how))
    }
}

impl Digests for Fault {
    fn algorithms(&self) -> Vec<Algorithm> {
        self.inner.extensions().digests.algorithms()
    }

    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.core.run(Op::Digest, &entry.name, || self.inner.extensions().digests.digest(entry, algorithm))
    }
}

impl ObjectOptions for Fault {
    fn are_set(&self) -> bool {
        self.inner.extensions().options.are_set()
    }

    fn apply(&self, name: &Name, kind: Kind, dry: bool) -> Result<OptionSet> {
        self.core.run(Op::SetMeta, name, || self.inner.extensions().options.apply(name, kind, dry))
    }

    fn marker_headers(&self, name: &Name) -> Result<Option<Arc<Headers>>> {
        self.inner.extensions().options.marker_headers(name)
    }
}

impl System for Fault {
    fn volume(&self) -> Result<Option<Volume>> {
        self.core.run(Op::Space, &Name::of(&Dir::root()), || self.inner.extensions().system.volume())
    }

    fn sync(&self, names: &[&Name]) -> Result<()> {
        let _under = self.core.enter(Op::Sync, names.len());
        self.wait(Op::Sync)?;
        for name in names {
            match self.core.ask(Op::Sync, &name.path(), false)? {
                Some(what) if !matches!(what, What::FailAfter(..)) => failure(&what, Op::Sync, name).map_or(Ok(()), Err)?,
                Some(What::FailAfter(kind, remedy)) => {
                    self.inner.extensions().system.sync(names)?;
                    return Err(made(Op::Sync, name, kind, remedy));
                }
                _ => {}
            }
        }
        self.inner.extensions().system.sync(names)
    }

    fn forget(&self, dir: &Dir) {
        let forget = || {
            self.inner.extensions().system.forget(dir);
            Ok(())
        };
        let failed: Result<(), Error> = self.core.run(Op::Forget, &Name::of(dir), forget);
        // There is no answer that could carry a failure.
        drop(failed);
    }

    fn remote_work(&self) -> Option<RemoteWork> {
        self.inner.extensions().system.remote_work()
    }
}
