//! `haul tag`, `acl`, `restore` and `bucket-version`: one request or two for each object, several at the same time.

use std::io::Write;

use haul_core::error::{Error, Result};
use haul_core::store::Flow;
use haul_net::http_client::parallel::{Threads, in_parallel};
use haul_run::open::Argument;
use haul_run::scope::{self, What, key_of};
use haul_s3::archive::{Restored, is_archive};
use haul_s3::inventory::Object;
use haul_s3::rights::Acl;
use haul_s3::{Bucket, BucketHost};

use crate::flags::Global;
use crate::flags::object::{ObjectAction, ObjectFlags, TagChange};
use crate::out;
use crate::render::listing::{Listed, Rights, State, Tags};

/// Requests at the same time, and objects whose answers are waited for together.
const AT_ONCE: usize = 16;
const TOGETHER: usize = 256;

/// What was found, or done.
enum Answer {
    Tags(Vec<(String, String)>),
    Acl(Acl),
    Done(&'static str),
}

/// Does it to all that an argument names; returns how many failed.
pub fn object(asked: &Argument<'_>, flags: &ObjectFlags, global: &Global, to: &mut dyn Write) -> Result<u64> {
    let how = Shown::of(flags, global);
    let key = key_of(asked.location);
    if key.is_empty() && !flags.recursive {
        let host = asked.hosts.reach(asked.location)?;
        let answer = one(BucketHost::of(&*host)?.bucket(), b"", flags).map_err(|e| e.at(&asked.path))?;
        return how.write(&asked.path, &answer, to).map_err(|e| Error::io(e, "write")).map(|()| 0);
    }
    let Some(scope) = scope::of(asked)? else { return Ok(0) };
    let many = flags.recursive || matches!(scope.what, What::Like(_));
    if !many {
        let answer = one(scope.bucket(), &key, flags).map_err(|e| e.at(&asked.path))?;
        return how.write(&asked.path, &answer, to).map_err(|e| Error::io(e, "write")).map(|()| 0);
    }
    let (mut failures, mut trouble) = (0, None);
    let mut finish = |(path, answer): (Vec<u8>, Result<Answer>)| match answer {
        Ok(answer) => {
            if let Err(e) = how.write(&path, &answer, to) {
                trouble.get_or_insert(e);
            }
        }
        Err(e) => {
            failures += 1;
            out::failure(&e.at(&path));
        }
    };
    let (threads, mut keys) = (Threads::default(), Vec::new());
    let mut done = |keys: &mut Vec<Vec<u8>>| {
        let keys = std::mem::take(keys);
        let answers = in_parallel(&threads, &keys, AT_ONCE, |key| one(scope.bucket(), key, flags));
        keys.iter().map(|key| scope.address(key)).zip(answers).for_each(&mut finish);
    };
    let archived = matches!(flags.action, ObjectAction::Restore { .. });
    let mut any = !matches!(scope.what, What::Like(_));
    let mut push = |object: &Object| {
        any = true;
        // Nothing is to be restored of the others.
        if !archived || is_archive(&object.class) {
            keys.push(object.key.clone());
        }
        if keys.len() >= TOGETHER {
            done(&mut keys);
        }
    };
    let listed = match &scope.what {
        What::Like(_) => scope.each(false, flags.recursive, &mut |found| {
            push(&found.object);
            Flow::Go
        }),
        _ => scope.objects(false, &mut |_, object| push(object)).map(|_| 0),
    };
    done(&mut keys);
    listed?;
    if !any {
        return Err(scope.nothing());
    }
    match trouble {
        Some(e) => Err(Error::io(e, "write")),
        None => Ok(failures),
    }
}

/// One request, or two where what is there decides.
fn one(bucket: &Bucket, key: &[u8], flags: &ObjectFlags) -> Result<Answer> {
    Ok(match &flags.action {
        ObjectAction::ShowTags => Answer::Tags(bucket.tag_set(key)?),
        ObjectAction::SetTags(change) => {
            let old = if change.clear && change.remove.is_empty() { Vec::new() } else { bucket.tag_set(key)? };
            let new = changed(old, change);
            if !flags.dry {
                bucket.set_tags(key, &new)?;
            }
            Answer::Tags(new)
        }
        ObjectAction::ShowAcl => Answer::Acl(bucket.acl(key)?),
        ObjectAction::SetAcl(word) => {
            if !flags.dry {
                bucket.set_acl(key, word)?;
            }
            Answer::Done("acl-set")
        }
        ObjectAction::Restore { .. } if flags.dry => Answer::Done(Restored::Begun.word()),
        ObjectAction::Restore { days, tier } => Answer::Done(bucket.restore(key, *days, *tier)?.word()),
        ObjectAction::ShowVersioning => Answer::Done(bucket.versioning()?.word()),
        ObjectAction::SetVersioning(on) => {
            bucket.set_versioning(*on)?;
            Answer::Done(bucket.versioning()?.word())
        }
    })
}

fn changed(old: Vec<(String, String)>, change: &TagChange) -> Vec<(String, String)> {
    let mut tags = if change.clear { Vec::new() } else { old };
    tags.retain(|(key, _)| !change.remove.contains(key) && !change.set.iter().any(|(new, _)| new == key));
    for (key, value) in &change.set {
        tags.retain(|(known, _)| known != key);
        tags.push((key.clone(), value.clone()));
    }
    tags.sort();
    tags
}

/// What is printed of each object.
#[derive(Clone, Copy)]
struct Shown {
    json: bool,
    dry: bool,
    /// What was set is printed only where somebody asks for it.
    quiet: bool,
}

impl Shown {
    fn of(flags: &ObjectFlags, global: &Global) -> Self {
        let sets = matches!(flags.action, ObjectAction::SetTags(_) | ObjectAction::SetAcl(_));
        Shown { json: global.json, dry: flags.dry, quiet: sets && !flags.dry && !global.json && global.verbose == 0 }
    }

    fn write(self, path: &[u8], answer: &Answer, to: &mut dyn Write) -> std::io::Result<()> {
        let Shown { json, dry, quiet } = self;
        if quiet {
            return Ok(());
        }
        let shown = |text: &str| if text.is_empty() { "-".to_string() } else { haul_core::entry::show(text.as_bytes()) };
        if json {
            return match answer {
                Answer::Tags(tags) => Listed::Tags(Tags::of(path, tags, dry)).write(to),
                Answer::Acl(acl) => Listed::Acl(Rights::of(path, acl)).write(to),
                Answer::Done(word) => Listed::State(State::of(path, word, dry)).write(to),
            };
        }
        let name = haul_core::entry::show(path);
        match answer {
            Answer::Tags(tags) => {
                writeln!(to, "{name}")?;
                tags.iter().try_for_each(|(key, value)| writeln!(to, "  {}={}", shown(key), haul_core::entry::show(value.as_bytes())))
            }
            Answer::Acl(acl) => {
                let owner = if acl.owner_name.is_empty() { &acl.owner } else { &acl.owner_name };
                writeln!(to, "{name}\n  {:<13} owner {}", "", shown(owner))?;
                acl.grants.iter().try_for_each(|grant| {
                    let (kind, who) = grant.grantee.words();
                    writeln!(to, "  {:<13} {kind} {}", shown(&grant.permission), shown(who))
                })
            }
            Answer::Done(word) => writeln!(to, "{word:<11}  {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_cleared_removed_and_set_in_this_order() {
        let pairs = |text: &str| -> Vec<(String, String)> {
            text.split_whitespace().filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
        };
        let change = TagChange { clear: false, remove: vec!["b".into()], set: pairs("c=3 c=4 d=5") };
        assert_eq!(changed(pairs("a=1 b=2 c=0"), &change), pairs("a=1 c=4 d=5"));
        let change = TagChange { clear: true, remove: Vec::new(), set: pairs("z=1") };
        assert_eq!(changed(pairs("a=1 z=0"), &change), pairs("z=1"));
    }
}
