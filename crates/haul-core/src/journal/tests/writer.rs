use super::*;

#[test]
fn a_run_that_was_killed_is_gone_on_with() {
    let place = place();
    let job = place.job();
    let (journal, progress) = job.journal().unwrap();
    assert!(journal.keeps() && progress.is_empty());
    let large = journal.open_session(b"d/large", &stamp(300), 100, &token("up")).unwrap();
    journal.landed(large, &receipt(1));
    let done = journal.intent(b"d", &mut [&b"s1"[..], b"s2"].into_iter()).unwrap();
    journal.intent(b"d", &mut [&b"s3"[..]].into_iter()).unwrap();
    journal.placed(done);
    let lost = journal.open_session(b"gone", &stamp(1), 1, &token("x")).unwrap();
    journal.dropped(lost);
    let before = std::fs::read(place.file("journal")).unwrap();
    journal.landed(large, &receipt(2)); // not flushed: a kill loses it
    // The kill: what is in the file at this moment is all there is.
    let other = place_with(&before);
    let (_journal, progress) = other.job().journal().unwrap();
    assert!(progress.unfinished(b"d", b"s3") && !progress.unfinished(b"d", b"s1"));
    let Resume::Continue(session) = progress.take(b"d/large", &[stamp(300)]) else { panic!("is open") };
    assert_eq!(session.landed.receipts().collect::<Vec<_>>(), [receipt(1)]);
    assert!(!session.foreign());
    assert!(progress.leftovers().is_empty());
    job.keep();
    journal.landed(large, &receipt(0)); // a straggler, when another run may have the lock
    journal.flush();
    assert!(!journal.keeps());
    let (_journal, progress) = place.job().journal().unwrap();
    assert!(matches!(progress.take(b"d/large", &[stamp(300)]), Resume::Continue(session) if session.landed.count() == 2));
}

#[test]
fn of_a_write_that_is_stated_anew_only_what_is_said_then_holds() {
    let place = place();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    let number = journal.open_session(b"large", &stamp(300), 100, &token("up")).unwrap();
    (0..3).for_each(|index| journal.landed(number, &receipt(index)));
    job.keep();
    let job = place.job();
    let (journal, progress) = job.journal().unwrap();
    let Resume::Continue(old) = progress.take(b"large", &[stamp(300)]) else { panic!("is open") };
    journal.restate(&old, &[receipt(2)], [(0, 40)]);
    let other = place_with(&std::fs::read(place.file("journal")).unwrap());
    let (_journal, progress) = other.job().journal().unwrap();
    let Resume::Continue(left) = progress.take(b"large", &[stamp(300)]) else { panic!("is open") };
    assert_eq!((left.session, &left.token), (old.session, &old.token));
    assert_eq!(left.landed.receipts().collect::<Vec<_>>(), [receipt(2)]);
    assert_eq!(left.landed.parts().collect::<Vec<_>>(), [(0, 40)]);
}

#[test]
fn every_prefix_of_a_journal_can_be_opened_and_appended_to() {
    let whole = log(&story());
    let place = place_with(&[]);
    for cut in (0..=whole.len()).step_by(7).chain([whole.len()]) {
        std::fs::write(place.file("journal"), &whole[..cut]).unwrap();
        let job = place.job();
        let (journal, _) = job.journal().unwrap();
        let session = journal.open_session(b"new", &stamp(5), 5, &token("new")).unwrap();
        assert!(session >= fold(&whole[..cut]).next_session, "numbers are used once");
        job.keep();
        let after = fold(&std::fs::read(place.file("journal")).unwrap());
        assert_eq!(after.sessions.len(), fold(&whole[..cut]).sessions.len() + 1, "cut at {cut}");
    }
}

#[test]
fn chunks_landed_elsewhere_stay_foreign_through_any_number_of_runs() {
    let place = place_with(&log(&story()));
    for _ in 0..3 {
        let job = place.job();
        let (journal, progress) = job.journal().unwrap();
        let Resume::Continue(session) = progress.take(b"a/x", &[stamp(1000)]) else { panic!("is open") };
        assert!(session.landed.is_foreign(3) && !session.landed.is_foreign(9));
        journal.landed(session.session, &receipt(5));
        job.keep();
    }
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    journal.landed(0, &receipt(3)); // hashed again
    job.keep();
    let (_, progress) = place.job().journal().unwrap();
    assert!(
        matches!(progress.take(b"a/x", &[stamp(1000)]), Resume::Continue(session) if !session.foreign() && session.landed.count() == 3)
    );
    let elsewhere = State::open_as(place.state.root().into(), Here { boot: [9; 16], ..here() }).unwrap();
    let (_, progress) = elsewhere.begin(&identity(), begin()).unwrap().journal().unwrap();
    assert!(matches!(progress.take(b"a/x", &[stamp(1000)]), Resume::Continue(session) if session.foreign()));
}

#[test]
fn restart_makes_what_landed_stale_but_does_torn_names_again() {
    let place = place_with(&log(&story()));
    let job = place.state.begin(&identity(), restart()).unwrap();
    let (_, progress) = job.journal().unwrap();
    assert!(matches!(progress.take(b"a/x", &[stamp(1000)]), Resume::Stale(_)));
    assert!(progress.unfinished(b"a", b"s"));
    drop(job);
    let (_, progress) = place.job().journal().unwrap();
    assert!(matches!(progress.take(b"a/x", &[stamp(1000)]), Resume::Continue(session) if session.landed.count() == 0), "for good");
}

#[test]
fn a_full_disk_turns_the_journal_off_and_not_the_run() {
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let journal = Journal::over(full, Path::new("/home/j"), 0, begun(BOOT), 0);
    assert!(journal.keeps());
    journal.landed(0, &receipt(1));
    assert!(journal.keeps() && journal.trouble().is_none());
    assert_eq!(journal.open_session(b"x", &stamp(1), 1, &token("t")).unwrap(), 0);
    assert!(!journal.keeps());
    let trouble = journal.trouble().unwrap();
    assert!(trouble.contains("/home/j") && trouble.contains("No space left"), "{trouble}");
    assert!(journal.trouble().is_none(), "once");
    assert_eq!(journal.intent(b"", &mut [&b"s"[..]].into_iter()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(journal.open_session(b"x", &stamp(1), 1, &token("t")).unwrap(), 1);
    journal.landed(0, &receipt(1));
    journal.committed(0);
    journal.dropped(0);
    journal.placed(0);
    journal.sync();
    assert!(journal.trouble().is_none());
}

#[test]
fn a_directory_that_is_gone_turns_the_journal_off() {
    let place = place();
    let job = place.job();
    std::fs::remove_dir_all(place.dir.path()).unwrap();
    let (journal, progress) = job.journal().unwrap();
    assert!(!journal.keeps() && progress.is_empty());
    assert!(journal.trouble().unwrap().contains("No such file"));
    assert!(job.finish("x").is_err());
}

#[test]
fn where_no_new_log_can_be_made_the_old_one_goes_on() {
    let mut torn = log(&story());
    torn.extend_from_slice(b"torn");
    let place = place_with(&torn);
    std::fs::create_dir(place.file("journal.new")).unwrap();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    assert!(journal.keeps());
    journal.open_session(b"more", &stamp(1), 1, &token("m")).unwrap();
    job.keep();
    let after = fold(&std::fs::read(place.file("journal")).unwrap());
    assert_eq!(after.sessions.values().map(|session| &session.path[..]).collect::<Vec<_>>(), [&b"a/x"[..], b"more"]);
    std::fs::remove_dir(place.file("journal.new")).unwrap();
}

#[test]
fn a_journal_that_cannot_be_read_is_an_error_but_for_restart() {
    let place = place();
    place.job().keep();
    std::fs::create_dir(place.file("journal")).unwrap();
    let error = place.job().journal().unwrap_err();
    assert_eq!(error.code(), Some(&crate::hint::Hint::ForgetJournal), "{error}");
    let job = place.state.begin(&identity(), restart()).unwrap();
    assert!(job.journal().unwrap().0.keeps(), "another takes its place");
}

#[test]
fn a_write_dropped_without_a_record_takes_the_receipts_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, log(&story())).unwrap();
    // Only what is there already can be written, as on a full disk.
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let journal = Journal::over(file, &path, u64::MAX, begun(BOOT), 7);
    journal.intent(b"", &mut [&b"s"[..]].into_iter()).unwrap_err();
    assert!(!journal.keeps());
    assert_eq!(fold(&std::fs::read(&path).unwrap()).sessions[&0].landed.count(), 2);
    journal.dropped(0);
    let after = fold(&std::fs::read(&path).unwrap());
    assert_eq!(std::fs::read(&path).unwrap()[VOID_AT as usize], 1);
    assert_eq!((after.sessions[&0].landed.count(), after.unfinished.len()), (0, 1));
}

#[test]
fn without_a_journal_nothing_is_kept_and_intents_are_refused() {
    let journal = Journal::none();
    assert!(!journal.keeps());
    assert_eq!(journal.open_session(b"x", &stamp(1), 1, &token("t")).unwrap(), 0);
    assert!(journal.intent(b"", &mut [&b"s"[..]].into_iter()).is_err());
    journal.dropped(0);
    journal.sync();
    assert!(journal.trouble().is_none());
}

#[test]
fn a_long_log_is_compacted_while_threads_append() {
    let place = place_with(&log(&story()));
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    let large = journal.open_session(b"large", &stamp(1 << 20), 1, &token("l")).unwrap();
    let open = journal.intent(b"dir", &mut [&b"open"[..]].into_iter()).unwrap();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (journal, written) = (&journal, &written);
            scope.spawn(move || {
                for i in 0..500u32 {
                    journal.landed(large, &receipt(i * 4 + thread));
                    let bundle = journal.intent(b"dir", &mut [&b"a"[..], b"b"].into_iter()).unwrap();
                    journal.placed(bundle);
                    written.fetch_add(60, Ordering::Relaxed);
                    if i % 100 == 0 {
                        journal.compact_at(0);
                    }
                }
            });
        }
    });
    journal.compact_at(0);
    journal.flush();
    assert!(journal.keeps());
    assert!(journal.length() < written.load(Ordering::Relaxed) / 2, "{} bytes", journal.length());
    let after = fold(&std::fs::read(place.file("journal")).unwrap());
    assert_eq!(after.sessions[&large].landed.count(), 2000);
    assert!(!after.sessions[&large].foreign() && after.sessions[&0].foreign());
    assert_eq!(after.open.keys().collect::<Vec<_>>(), [&open]);
    assert!(after.unfinished.contains_key(&b"a"[..]), "of the runs before");
    journal.placed(open);
    journal.flush();
    assert!(fold(&std::fs::read(place.file("journal")).unwrap()).open.is_empty());
}

#[test]
fn the_hook_sees_every_record_written() {
    let place = place();
    let job = place.job();
    let (journal, _) = job.journal().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (path, into) = (place.file("journal"), seen.clone());
    let journal = journal.with_hook(Box::new(move |n| {
        let mut log = vec![0; 4096];
        let length = File::open(&path).unwrap().read_at(&mut log, 0).unwrap();
        let mut reader = Reader::new(&log[..length]).unwrap();
        let mut last = None;
        while let Some(record) = reader.next().unwrap() {
            last = Some(record);
        }
        into.lock().unwrap().push((n, last.unwrap()));
    }));
    let session = journal.open_session(b"x", &stamp(1), 1, &token("t")).unwrap();
    journal.landed(session, &receipt(0));
    journal.committed(session);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(seen[1].1, Record::WriteOutcome { session, receipt: receipt(0) });
    assert_eq!(seen[2].1, Record::Committed { session });
}
