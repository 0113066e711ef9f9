use super::*;
use crate::hint::Hint;

#[test]
fn the_same_places_make_the_same_job() {
    let id = |sources: &[&str], target: &str| {
        Identity { sources: sources.iter().map(|s| s.to_string()).collect(), target: target.into(), ..Identity::default() }.id()
    };
    assert_eq!(id(&["a", "b"], "c"), id(&["b", "a", "a"], "c"));
    assert_ne!(id(&["a", "b"], "c"), id(&["ab"], "c"));
    assert_ne!(id(&["a"], "b"), id(&["b"], "a"));
    assert_ne!(id(&["a"], "bc"), id(&["a", "b"], "c"));
    assert_eq!(id(&["a"], "b").len(), 16);
    assert!(id(&["a"], "b").bytes().all(|b| b.is_ascii_hexdigit()));
}

#[test]
fn the_state_directory_comes_from_the_environment() {
    let root = |set: &[(&str, &str)]| {
        default_root(|word| set.iter().find(|(name, _)| *name == word).map(|(_, value)| value.into()))
            .map(|path| path.display().to_string())
    };
    let all = [("HAUL_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(root(&all).as_deref(), Some("/s"));
    assert_eq!(root(&all[1..]).as_deref(), Some("/x/haul"));
    assert_eq!(root(&all[2..]).as_deref(), Some("/h/.local/state/haul"));
    assert_eq!(root(&[]), None);
    assert_eq!(root(&[("HAUL_STATE_DIR", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")]).as_deref(), Some("/h/.local/state/haul"));
    assert_eq!(root(&[("HAUL_STATE_DIR", "s")]).as_deref(), Some("s"));
}

#[test]
fn a_second_run_is_told_who_is_at_work() {
    let place = place();
    let job = place.job();
    let error = place.state.begin(&identity(), begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let pid = std::process::id();
    assert!(error.to_string().contains(&format!("process {pid} on node")), "{error}");
    assert_eq!(error.code(), Some(&Hint::Wait { kill: Some(pid), gone_in: None }));
    let waits = Begin { wait: Some(Duration::from_secs(60)), ..begin() };
    waits.cancel.set(crate::cancel::Stop::Signal);
    assert_eq!(place.state.begin(&identity(), waits).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_ne!(Identity { reached: "s3 other".into(), ..identity() }.id(), identity().id());
    let other = Identity { target: "/elsewhere".into(), ..identity() };
    place.state.begin(&other, begin()).unwrap().keep();
    let freed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| place.state.begin(&identity(), Begin { wait: Some(Duration::from_secs(60)), ..begin() }));
        job.finish("done").unwrap();
        waiting.join().unwrap()
    });
    freed.unwrap().keep();
}

#[test]
fn the_lock_is_judged_by_the_best_evidence() {
    let here = here();
    let holder = |at: Here| Holder { here: at, since: 0, heartbeat: 1000, released: false };
    let lives = |pid: u32| (pid == here.pid).then_some(here.born);
    let other = || Here { host: "far".into(), boot: [9; 16], ..here.clone() };
    let dead = || Here { pid: 1 << 30, ..here.clone() };
    let reborn = || Here { born: here.born + 1, ..here.clone() };
    let boxed = || Here { space: here.space + 1, ..dead() };
    let rebooted = || Here { boot: [9; 16], ..here.clone() };
    // holder, now, file lock granted -> at work
    let table = [
        (holder(here.clone()), 5000, false, true),
        (holder(here.clone()), 1000, true, false),
        (holder(dead()), 1000, false, false),
        (holder(reborn()), 1000, false, false),
        (holder(boxed()), 1059, false, true),
        (holder(boxed()), 1060, false, false),
        (holder(rebooted()), 1000, true, false),
        (holder(rebooted()), 1059, false, true),
        (holder(other()), 1059, true, true),
        (holder(other()), 1060, true, false),
        (holder(other()), 900, true, true),
        (Holder { released: true, ..holder(other()) }, 1000, true, false),
    ];
    for (holder, now, locked, expected) in table {
        assert_eq!(holder.is_at_work(&here, now, locked, lives), expected, "{holder:?} at {now}, locked {locked}");
    }
}

fn leave_lock(place: &Place, here: &Here, heartbeat: i64) {
    place.job().keep();
    let lock = Lock::take(&place.file("lock"), here, heartbeat).unwrap().unwrap();
    let words = std::fs::read(place.file("lock")).unwrap();
    drop(lock);
    std::fs::write(place.file("lock"), words).unwrap(); // as after a kill
}

#[test]
fn a_stale_lock_is_taken_and_another_nodes_is_not_before_its_time() {
    let place = place();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    leave_lock(&place, &Here { pid: 1 << 30, ..here() }, now);
    place.job().keep();
    let far = Here { host: "far".into(), boot: [9; 16], ..here() };
    leave_lock(&place, &far, now + 3600);
    let error = place.state.begin(&identity(), begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("on far"), "{error}");
    assert!(matches!(&place.state.list(SystemTime::now()).unwrap()[0].state, JobState::Running { host, .. } if host == "far"));
    leave_lock_over(&place, &far, now - 61);
    place.job().keep();
    std::fs::write(place.file("lock"), b"\xff rubbish").unwrap();
    place.job().keep();
}

fn leave_lock_over(place: &Place, here: &Here, heartbeat: i64) {
    std::fs::remove_file(place.file("lock")).unwrap();
    leave_lock(place, here, heartbeat);
}

#[test]
fn a_run_whose_lock_was_taken_away_is_told() {
    let place = place();
    let job = place.job();
    let later = UNIX_EPOCH + Duration::from_secs(5_000_000_000);
    job.heartbeat(later).unwrap();
    assert_eq!(lock::holder_of(&place.file("lock")).unwrap().heartbeat, 5_000_000_000);
    let far = Here { host: "far".into(), ..here() };
    std::fs::remove_file(place.file("lock")).unwrap();
    let taken = Lock::take(&place.file("lock"), &far, 0).unwrap().unwrap();
    assert_eq!(job.heartbeat(later).unwrap_err().kind(), ErrorKind::Busy);
    job.keep();
    assert_eq!(lock::holder_of(&place.file("lock")).unwrap().here, far);
    drop(taken);
}

#[test]
fn a_finished_job_leaves_its_record_and_nothing_else() {
    let place = place();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    journal.open_session(b"x", &stamp(5), 5, &token("t")).unwrap();
    assert_eq!(place.names(), ["job", "journal", "lock"]);
    for name in place.names() {
        assert_eq!(std::fs::metadata(place.file(&name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(place.file("")).unwrap().permissions().mode() & 0o777, 0o700);
    job.finish("12 files\n\n3 MiB\n").unwrap();
    assert_eq!(place.names(), ["record"]);
    assert!(!journal.keeps());
    journal.landed(0, &receipt(0)); // a straggler
    let info = &place.state.list(SystemTime::now()).unwrap()[0];
    assert_eq!((&info.sources, &info.target, &info.command), (&identity().sources, &identity().target, &begin().command));
    assert!(matches!(&info.state, JobState::Finished { record, at: Some(_) } if record == "12 files\n\n3 MiB\n"), "{info:?}");
    let (_, progress) = place.job().journal().unwrap();
    assert!(progress.is_empty());
}

#[test]
fn what_a_run_took_is_kept_until_the_next_one_begins() {
    let place = place();
    let job = place.job();
    assert_eq!(place.state.list(SystemTime::now()).unwrap()[0].figures, None);
    job.note("{\"bytes\":1}").unwrap();
    job.journal().unwrap();
    job.keep();
    let kept = || place.state.list(SystemTime::now()).unwrap().pop().and_then(|job| job.figures);
    assert_eq!(kept().as_deref(), Some("{\"bytes\":1}"));
    let job = place.job();
    assert_eq!(kept(), None, "a run that is killed leaves none of another");
    job.note("{\"bytes\":2}").unwrap();
    job.finish("12 files\n").unwrap();
    assert_eq!(place.names(), ["figures", "record"]);
    assert_eq!(kept().as_deref(), Some("{\"bytes\":2}"));
    place.state.clean(&Pick::default(), SystemTime::now()).unwrap().jobs.pop().unwrap().remove().unwrap();
    assert!(!place.file("").exists());
}

#[test]
fn jobs_are_listed_and_cleaned_once_they_are_over() {
    let place = place();
    let now = SystemTime::now();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    journal.open_session(b"p/x", &stamp(25), 10, &token("up")).unwrap();
    journal.landed(0, &receipt(2));
    let staged = crate::journal::staged(&token("small"));
    journal.intent(b"p", &mut [&b"s"[..], b"t", &staged].into_iter()).unwrap();
    let pid = std::process::id();
    assert!(matches!(&place.state.list(now).unwrap()[0].state, JobState::Running { pid: p, .. } if *p == pid));
    let clean = place.state.clean(&Pick::default(), now).unwrap();
    assert!(clean.jobs.is_empty() && clean.running.len() == 1);
    job.keep();
    let mut staging = vec![(b"p/x"[..].into(), token("up"))];
    assert_eq!(place.state.list(now).unwrap()[0].state, JobState::Unfinished { staging: staging.clone(), landed: 5, small: 1, names: 2 });
    let young = Pick { older_than: Some(Duration::from_secs(3600)), ..Pick::default() };
    assert!(place.state.clean(&young, now).unwrap().jobs.is_empty());
    let unknown = Pick { ids: vec!["../..".into()], ..Pick::default() };
    assert_eq!(place.state.clean(&unknown, now).unwrap().unknown, ["../.."]);
    let mut clean = place.state.clean(&Pick { ids: vec![identity().id()], ..young }, now + Duration::from_secs(7200)).unwrap();
    let cleaning = clean.jobs.pop().unwrap();
    staging.push((b"p/small"[..].into(), token("small")));
    assert_eq!(cleaning.leftovers, staging);
    assert_eq!(place.state.begin(&identity(), begin()).unwrap_err().kind(), ErrorKind::Busy);
    cleaning.remove().unwrap();
    assert!(place.state.list(now).unwrap().is_empty());
    assert!(!place.file("").exists());
}

#[test]
fn a_job_that_a_cleaning_leaves_is_as_old_as_before() {
    let place = place();
    let now = SystemTime::now();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    journal.open_session(b"p/x", &stamp(25), 10, &token("up")).unwrap();
    job.keep();
    let before = place.state.list(now).unwrap()[0].heartbeat;
    let later = now + Duration::from_secs(7200);
    let clean = place.state.clean(&Pick::default(), later).unwrap();
    assert_eq!(clean.jobs.len(), 1);
    drop(clean);
    assert_eq!(place.state.list(later).unwrap()[0].heartbeat, before);
}

#[test]
fn journals_of_all_ranks_are_read_by_the_next_run_whatever_its_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::open_as(dir.path().join("state"), here()).unwrap();
    let begin = || state.begin(&identity(), Begin::default()).unwrap();
    {
        let job = begin();
        let (first, past) = job.journal().unwrap();
        assert!(past.is_empty() && !past.is_rerun());
        let (second, past) = state.join(&identity(), 1, false).unwrap();
        assert!(past.is_empty());
        let (third, _) = state.join(&identity(), 12, false).unwrap();
        for (journal, name) in [(&first, "a"), (&second, "b"), (&third, "c")] {
            let session = journal.open_session(name.as_bytes(), &stamp(100), 10, &token(name)).unwrap();
            journal.landed(session, &receipt(3));
            journal.intent(b"d", &mut [name.as_bytes()].into_iter()).unwrap();
            journal.flush();
        }
    }
    // Two ranks now. The second takes up what the third had begun, and begins anew what was the second's, under the same token.
    {
        let job = begin();
        let (_first, past) = job.journal().unwrap();
        assert_eq!(
            std::fs::read_dir(job.path())
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("journal."))
                .count(),
            0
        );
        assert!(past.is_rerun() && past.is_begun(b"a") && past.is_begun(b"b") && past.is_begun(b"c"));
        assert!([b"a", b"b", b"c"].iter().all(|name| past.unfinished(b"d", *name)));
        let (second, past) = state.join(&identity(), 1, false).unwrap();
        assert!(past.is_rerun());
        let Resume::Continue(old) = past.take(b"c", &[stamp(100)]) else { panic!("it is not finished") };
        assert!(old.landed.has(3) && !old.foreign());
        let old = second.take_up(old, false);
        second.landed(old.session, &receipt(4));
        let Resume::Continue(old) = past.take(b"b", &[stamp(100)]) else { panic!("it is not finished") };
        let old = second.take_up(old, false);
        second.dropped(old.session);
        let session = second.open_session(b"b", &stamp(100), 10, &token("b")).unwrap();
        second.landed(session, &receipt(0));
        second.flush();
    }
    let listed = state.list(SystemTime::now()).unwrap();
    let JobState::Unfinished { staging, .. } = &listed[0].state else { panic!("{:?}", listed[0]) };
    assert_eq!(staging.len(), 3);
    let job = begin();
    let (_alone, past) = job.journal().unwrap();
    let landed = |name: &str| match past.take(name.as_bytes(), &[stamp(100)]) {
        Resume::Continue(old) => old.landed.receipts().map(|receipt| receipt.index).collect::<Vec<_>>(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!((landed("a"), landed("b"), landed("c")), (vec![3], vec![0], vec![3, 4]), "nothing of what was begun anew");
    job.finish("done").unwrap();
    assert!(matches!(state.list(SystemTime::now()).unwrap()[0].state, JobState::Finished { .. }));
}
