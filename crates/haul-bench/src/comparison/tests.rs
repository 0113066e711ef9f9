use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use haul_local::{Local, Options};

use super::*;
use crate::record::{Header, Kind};

struct Here {
    place: PathBuf,
}

impl Target for Here {
    fn make(&self, name: &str) -> Result<()> {
        fs::create_dir(self.place.join(name)).map_err(|e| Error::io(e, "mkdir"))
    }

    fn clear(&self, name: &str) -> Result<()> {
        match fs::remove_dir_all(self.place.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(e, "remove")),
            _ => Ok(()),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Local::open(&self.place.join(name), Options::default())?))
    }

    fn local(&self) -> Option<&Path> {
        None
    }
}

struct World {
    dir: tempfile::TempDir,
    source: Source,
    target: Here,
    cancel: Cancel,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("src");
        fs::create_dir_all(tree.join("d/empty")).unwrap();
        fs::write(tree.join("a"), b"content").unwrap();
        fs::write(tree.join("d/b"), b"more content").unwrap();
        fs::write(tree.join("zero"), b"").unwrap();
        fs::hard_link(tree.join("a"), tree.join("again")).unwrap();
        symlink("a", tree.join("link")).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        for name in ["a", "d/b", "zero"] {
            let set = File::options().write(true).open(tree.join(name)).unwrap().set_modified(UNIX_EPOCH + Duration::new(1_000_000, 5));
            set.unwrap();
        }
        let store = Local::open(&tree, Options::default()).unwrap();
        let cancel = Cancel::default();
        let source = Source::read(&store, None, b"src", 2, &cancel).unwrap();
        fs::create_dir(dir.path().join("dst")).unwrap();
        let target = Here { place: dir.path().join("dst") };
        World { dir, source, target, cancel }
    }

    /// Runs a script, `$1` being the source and `$2` where its copy goes, and looks at what it made.
    fn after(&self, script: &str) -> verification::Verification {
        self.target.make("x").unwrap();
        let done = std::process::Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(self.dir.path().join("src"))
            .arg(self.dir.path().join("dst/x"))
            .status()
            .unwrap();
        assert!(done.success(), "{script}");
        let verification = verification::check(&self.source, &*self.target.open("x").unwrap(), 2, &self.cancel).unwrap();
        self.target.clear("x").unwrap();
        verification
    }

    fn contender(&self, name: &str, script: &str) -> Contender<'_> {
        let (from, place, script) = (self.dir.path().join("src"), self.target.place.clone(), script.to_string());
        let prepare = move |fresh: &str| {
            let words = ["sh".into(), "-c".into(), script.clone().into(), "sh".into(), from.clone().into(), place.join(fresh).into()];
            Ok(Call { stages: vec![words.to_vec()], ..Call::default() })
        };
        Contender { name: name.into(), factors: BTreeMap::new(), prepare: Box::new(prepare), absent: None }
    }

    fn hold(&self, run: &mut Run, contenders: &[Contender<'_>], report: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let comparison = Comparison {
            contenders,
            target: &self.target,
            source: &self.source,
            from: None,
            repeat: 2,
            warmup: 1,
            seed: 5,
            limit: Duration::from_millis(1500),
            caches: Caches::Warm.sync().unwrap(),
            threads: 2,
            cancel: &self.cancel,
            group: &Group::default(),
        };
        comparison.measure_all(run, report)
    }

    fn run(&self) -> Run {
        Run::begin(&self.dir.path().join("run"), Header { kind: Kind::Compare, ..Header::default() }).unwrap()
    }
}

#[test]
fn a_source_is_counted_and_kept() {
    let world = World::new();
    let source = &world.source;
    assert_eq!((source.files, source.dirs, source.links, source.bytes), (4, 3, 1, 26));
    let paths: Vec<&[u8]> = source.records.iter().map(|r| &r.path[..]).collect();
    assert_eq!((paths.len(), paths[0], paths[4]), (8, &b"src"[..], &b"src/d/b"[..]));
}

#[test]
fn another_source_has_another_digest() {
    let world = World::new();
    let tree = world.dir.path().join("src");
    let digest = |threads: usize| {
        let store = Local::open(&tree, Options::default()).unwrap();
        Source::read(&store, None, b"src", threads, &world.cancel).unwrap().digest
    };
    let first = world.source.digest;
    assert_eq!((digest(1), digest(4)), (first, first));
    let at = fs::metadata(tree.join("a")).unwrap().modified().unwrap();
    fs::write(tree.join("new"), b"").unwrap();
    assert_ne!(digest(1), first);
    fs::remove_file(tree.join("new")).unwrap();
    assert_eq!(digest(1), first, "the directory's own time does not count");
    fs::write(tree.join("a"), b"Content").unwrap();
    File::options().write(true).open(tree.join("a")).unwrap().set_modified(at).unwrap();
    assert_ne!(digest(1), first, "a change of content of the same size and time counts");
}

#[test]
fn a_right_copy_is_right_and_says_what_came_along() {
    let world = World::new();
    let all = world.after("cp -a $1 $2/");
    assert_eq!((all.wrong, all.kept.as_str()), (0, "mode, mtime, links, hard links"), "{all:?}");
    let seconds = world.after("tar -C $1/.. -cf - src | tar -C $2 -xpf -");
    assert_eq!((seconds.wrong, seconds.kept.as_str()), (0, "mode, mtime to 1 s, links, hard links"), "{seconds:?}");
    let plain = world.after("umask 022; cp -r $1 $2/; chmod 600 $2/src/a");
    assert_eq!((plain.wrong, plain.kept.as_str()), (0, "links"), "{plain:?}");
    assert_eq!(world.after("cp -rL $1 $2/; chmod 600 $2/src/a").kept, "links followed");
    assert_eq!(world.after("cp -a $1 $2/; rm $2/src/link").kept, "mode, mtime, links left out, hard links");
}

#[test]
fn every_difference_of_a_copy_is_named() {
    let world = World::new();
    for (script, telling) in [
        ("cp -a $1 $2/; rm $2/src/d/b", "src/d/b: missing"),
        ("cp -a $1 $2/; printf Content > $2/src/a", "different content"),
        ("cp -a $1 $2/; printf x >> $2/src/zero", "src/zero: 1 bytes instead of 0"),
        ("cp -a $1 $2/; rmdir $2/src/d/empty", "src/d/empty: missing"),
        ("cp -a $1 $2/; rm $2/src/zero; mkdir $2/src/zero", "instead of"),
        ("cp -a $1 $2/; touch $2/src/extra", "1 names that the source does not have"),
        ("cp -a $1 $2/; touch $2/beside", "beside: an unexpected name"),
        ("cp -a $1 $2/; ln -sf d $2/src/link", "a symlink with another target"),
        ("cp -a $1/. $2/", "missing"),
        ("true", "missing"),
    ] {
        let verification = world.after(script);
        assert!(verification.wrong > 0 && verification.named.iter().any(|line| line.contains(telling)), "{script}: {verification:?}");
    }
}

#[test]
fn every_way_to_end_is_a_sample_and_nothing_is_left() {
    let world = World::new();
    let mut missing = world.contender("missing", "");
    missing.prepare = Box::new(|_| Ok(Call { stages: vec![vec!["no-such-program".into()]], ..Call::default() }));
    let contenders = [
        world.contender("right", "cp -a $1 $2/"),
        world.contender("liar", "mkdir $2/src"),
        world.contender("fails", "echo first >&2; echo the disk is on fire >&2; exit 3"),
        world.contender("hangs", "cp -a $1 $2/; sleep 60"),
        Contender { absent: Some("rsync: not found".into()), ..world.contender("absent", "true") },
        missing,
    ];
    let mut run = world.run();
    let mut began = 0;
    world
        .hold(&mut run, &contenders, &mut |event| {
            began += u32::from(matches!(event, Event::Begins { .. }));
            assert!(!matches!(event, Event::Left(_)), "{event:?}");
        })
        .unwrap();
    let of = |name: &str| run.samples.iter().filter(|s| s.contender == name).collect::<Vec<_>>();
    let outcomes = |name: &str| of(name).iter().map(|s| s.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes("right"), [Outcome::Ok; 3]);
    assert_eq!(of("right").iter().map(|s| s.repetition).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(outcomes("liar"), [Outcome::Wrong; 3]);
    assert_eq!(outcomes("fails"), [Outcome::Failed; 3]);
    assert_eq!(of("fails")[0].reason.as_deref(), Some("ended with code 3: the disk is on fire"));
    // What is missing or takes all its time is tried once.
    assert_eq!(outcomes("hangs"), [Outcome::Timeout]);
    assert_eq!((outcomes("absent"), outcomes("missing")), (vec![Outcome::Missing], vec![Outcome::Missing]));
    assert_eq!(began, 3 * 3 + 3);
    assert_eq!(fs::read_dir(&world.target.place).unwrap().count(), 0);
    assert!(of("right").iter().all(|s| s.seconds > Some(0.0) && s.caches.as_deref() == Some("warm") && s.bytes == Some(26)));
}

#[test]
fn a_run_that_was_stopped_is_resumed() {
    let world = World::new();
    let contenders = [world.contender("a", "cp -a $1 $2/"), world.contender("b", "cp -a $1 $2/; sleep 0.1")];
    let mut run = world.run();
    let cancel = world.cancel.clone();
    let mut ended = 0;
    let e = world.hold(&mut run, &contenders, &mut |event| {
        ended += u32::from(matches!(event, Event::Ended(_)));
        if matches!(event, Event::Begins { nth: 4, .. }) {
            cancel.set(haul_core::cancel::Stop::Signal);
        }
    });
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((ended, run.samples.len(), run.samples[3].outcome), (4, 4, Outcome::Interrupted));
    assert_eq!(fs::read_dir(&world.target.place).unwrap().count(), 0);
    drop(run);
    drop(contenders);
    let world = World { cancel: Cancel::default(), ..world };
    let contenders = [world.contender("a", "cp -a $1 $2/"), world.contender("b", "cp -a $1 $2/")];
    let mut run = world.run();
    world.hold(&mut run, &contenders, &mut |_| {}).unwrap();
    for name in ["a", "b"] {
        for repetition in [1, 2] {
            let same = |s: &&Sample| s.contender == name && s.repetition == repetition && s.outcome == Outcome::Ok;
            assert_eq!(run.samples.iter().filter(same).count(), 1, "{name} {repetition}");
        }
    }
    assert!(world.dir.path().join("src/a").exists(), "nothing outside is touched");
    assert_eq!(fs::read_dir(&world.target.place).unwrap().count(), 0);
}

#[test]
fn what_is_in_the_place_of_a_copy_is_not_removed() {
    let world = World::new();
    let mut run = world.run();
    let name = format!("{}1", prefix(&run.header));
    fs::create_dir(world.target.place.join(&name)).unwrap();
    let e = world.hold(&mut run, &[world.contender("a", "cp -a $1 $2/")], &mut |_| {}).unwrap_err();
    assert_eq!((e.kind(), run.samples.len()), (ErrorKind::Exists, 0));
    assert!(world.target.place.join(&name).exists());
    let prefix = prefix(&run.header);
    assert!(is_copy(&prefix, name.as_bytes()));
    for other in ["thesis".to_string(), prefix.clone(), format!("{prefix}1a"), format!("{prefix}thesis")] {
        assert!(!is_copy(&prefix, other.as_bytes()), "{other}");
    }
}

#[test]
fn an_empty_source_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let store = Local::open(&dir.path().join("empty"), Options::default()).unwrap();
    let e = Source::read(&store, None, b"empty", 2, &Cancel::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
}
