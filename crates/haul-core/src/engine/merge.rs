//! Lists and pairs both sides of a directory, spellings of one name at a case-folding destination included.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind};
use crate::schedule::DirWork;
use crate::store::Found;

use super::context::Context;
use super::deletes::{extra, mark_for_deletion, protected};
use super::names::{BATCH, admitted, push, selected};
use super::sorted::{self, Sorted};
use super::task::{DestinationState, Name as Named};
use super::tries::look_up;

pub fn list_merged(cx: &Arc<Context>, work: &Arc<DirWork>, drained: &mut std::time::Duration) -> crate::Result<()> {
    let dir_path = work.dir.path();
    let sources = cx.out.timed(|times| &mut times.source_listing, || sorted::source(cx, work))?;
    // If the destination's directory cannot be listed, its names are looked up one by one and nothing is deleted.
    let listed = cx.out.timed(|times| &mut times.target_listing, || sorted::target(cx, work));
    let (targets, unmatched) = match listed {
        Ok(targets) => (targets, DestinationState::Absent),
        Err(e) => {
            cx.out.fail(&e.on(&Name::of(&work.dir)), Kind::Dir);
            (Sorted::empty(), DestinationState::Unknown)
        }
    };
    let mut folding = cx.target().caps().names.folds_case.then(Folding::default);
    let mut batch = Vec::with_capacity(BATCH);
    let mut hand_on = |batch: Vec<Named>, folding: &mut Option<Folding>| {
        let batch = match folding {
            Some(folding) => folding.meet(cx, work, batch),
            None => batch,
        };
        push(cx, work, batch, drained);
    };
    for pair in sorted::merge(sources, targets) {
        cx.cancel.check()?;
        match pair? {
            (Some(source), target) => {
                cx.post_pass.listed.fetch_add(1, Ordering::Relaxed);
                if !admitted(cx, work, &source) {
                    continue;
                }
                if target.is_some() {
                    cx.post_pass.matched.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(folding) = &mut folding {
                    folding.names.insert(lower(&source.name.leaf));
                }
                if !selected(cx, Some(&dir_path), &source) {
                    if let Some(target) = target.filter(|_| cx.job.deletes_excluded()) {
                        mark_for_deletion(cx, work, &target);
                    }
                    continue;
                }
                let there = target.map_or(unmatched.clone(), |t| DestinationState::Listed(Box::new(t)));
                batch.push(Named { entry: source, there });
                if batch.len() >= BATCH {
                    hand_on(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)), &mut folding);
                }
            }
            (None, Some(target)) => {
                if protected(cx, &target) || in_another_root(cx, work, &target) {
                    continue;
                }
                match &mut folding {
                    Some(folding) => folding.extras.push(target),
                    None => extra(cx, work, &target),
                }
            }
            (None, None) => {}
        }
    }
    hand_on(batch, &mut folding);
    if let Some(folding) = folding {
        folding.extras(cx, work);
    }
    Ok(())
}

/// A destination that folds case (or normalizes names) lists one spelling of a name that the source has in another. Unpaired names
/// are therefore looked up, and what is found so is not extra.
#[derive(Default)]
struct Folding {
    /// The source's names in lower case.
    names: std::collections::HashSet<String>,
    /// Inodes found under other spellings.
    met: std::collections::HashSet<u64>,
    extras: Vec<Entry>,
}

fn lower(leaf: &[u8]) -> String {
    String::from_utf8_lossy(leaf).to_lowercase()
}

impl Folding {
    fn meet(&mut self, cx: &Context, work: &DirWork, mut batch: Vec<Named>) -> Vec<Named> {
        let (absent, leaves): (Vec<usize>, Vec<&[u8]>) = batch
            .iter()
            .enumerate()
            .filter(|(_, named)| matches!(named.there, DestinationState::Absent))
            .map(|(i, named)| (i, cx.target_leaf(&named.entry.name)))
            .unzip();
        let found = look_up(cx.target(), &work.dir, &leaves, MetaMask::NONE, false);
        for (i, found) in absent.into_iter().zip(found) {
            match found {
                Found::Entry(entry) => {
                    self.met.insert(entry.ino);
                    batch[i].there = DestinationState::Listed(Box::new(entry));
                }
                Found::Absent => {}
                // Asked again, and reported, with the rest.
                Found::Failed(_) => batch[i].there = DestinationState::Unknown,
            }
        }
        batch
    }

    fn extras(self, cx: &Context, work: &Arc<DirWork>) {
        let Folding { names, met, extras } = self;
        for target in extras {
            let is_other_spelling = names.contains(&lower(&target.name.leaf)) || (target.ino != 0 && met.contains(&target.ino));
            if !is_other_spelling {
                extra(cx, work, &target);
            }
        }
    }
}

/// With several sources a name that one of them lacks may be another's. What cannot be asked counts as there.
fn in_another_root(cx: &Context, work: &DirWork, target: &Entry) -> bool {
    let gone = |e: &Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished);
    cx.job.roots.iter().enumerate().any(|(i, root)| {
        i != work.root && root.pick.means(&target.name) && !root.store.stat(&target.name, MetaMask::NONE).is_err_and(|e| gone(&e))
    })
}
