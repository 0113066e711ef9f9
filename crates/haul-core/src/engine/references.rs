//! Reference trees beside the destination: what is equal in one of them is linked, not copied.

use crate::store::ServerSideOp;
use std::collections::HashMap;

use crate::entry::{Entry, Kind, MetaMask};
use crate::event::{Action, Why};
use crate::plan::{Act, Compare, Step};
use crate::schedule::DirWork;
use crate::store::{Found, Store};

use super::context::Context;
use super::file::open_file::Reference;
use super::tries::{look_up, retry};

/// What one reference tree has in a directory, by leaf.
pub type References = HashMap<Vec<u8>, Entry>;

/// What the reference trees have under the names of new files.
pub fn look_up_all(cx: &Context, work: &DirWork, pairs: &[(Entry, Option<Entry>)], want: MetaMask) -> Vec<References> {
    if cx.job.link_dest.is_empty() {
        return Vec::new();
    }
    let new = pairs.iter().filter(|(entry, target)| target.is_none() && entry.kind != Kind::Dir);
    let leaves: Vec<&[u8]> = new.map(|(entry, _)| cx.target_leaf(&entry.name)).collect();
    let found = |store: &dyn Store| {
        let found = look_up(store, &work.dir, &leaves, want, false).into_iter().zip(&leaves);
        // What cannot be looked up is copied.
        found.filter_map(|(found, leaf)| if let Found::Entry(entry) = found { Some((leaf.to_vec(), entry)) } else { None }).collect()
    };
    cx.job.link_dest.iter().map(|reference| found(&**reference)).collect()
}

/// References that are equal to a new file, and those that may be: reading both tells.
pub fn candidates(cx: &Context, entry: &Entry, references: &[References]) -> (Vec<Reference>, Vec<Reference>) {
    let (mut equal, mut maybe) = (Vec::new(), Vec::new());
    if references.is_empty() || cx.planner.decide(entry, None).act == Act::Keep {
        return (equal, maybe);
    }
    let leaf: &[u8] = cx.target_leaf(&entry.name);
    // Asked as if the reference stood at the destination, but for what is meant for things that do stand there.
    let mut planner = cx.planner.clone();
    (planner.policy.update, planner.policy.ignore_existing) = (false, false);
    // A link shares all attributes, the time too where only sizes are compared.
    let mut exact = planner.clone();
    exact.policy.compare = Compare::SizeAndTime;
    for (i, known) in references.iter().enumerate() {
        let Some(there) = known.get(leaf).filter(|there| there.kind == entry.kind) else { continue };
        match planner.decide(entry, Some(there)) {
            _ if exact.attributes_differ(entry, there) => {}
            Step { act: Act::Compare, .. } => maybe.push((i, there.clone())),
            Step { act: Act::Keep, why: Why::Same } => equal.push((i, there.clone())),
            _ => {}
        }
    }
    (equal, maybe)
}

/// Gives an equal file of a reference tree the entry's name, too. `false` where that cannot be.
pub fn link(cx: &Context, work: &DirWork, entry: &Entry, (tree, there): &Reference) -> bool {
    if cx.writes() {
        work.touch();
        let name = cx.target_name(&entry.name);
        if !matches!(
            retry(|| cx.target().extensions().server_side.perform(&*cx.job.link_dest[*tree], there, &name, ServerSideOp::Link)),
            Ok(Some(_))
        ) {
            return false;
        }
    }
    let mut report = cx.out.report();
    report.made.add(entry.kind, 1);
    report.hard_links += 1;
    drop(report);
    cx.out.item(Action::HardLink, Why::Same, entry);
    true
}
