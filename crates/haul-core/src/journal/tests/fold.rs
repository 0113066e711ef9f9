use super::*;

fn a_record() -> impl Strategy<Value = Record> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (any::<u32>(), prop::collection::vec(".*", 0..3), ".*", any::<[u8; 16]>(), ".*", any::<u32>(), any::<i64>()).prop_map(
            |(version, sources, target, boot, host, pid, unix_seconds)| Record::Begun {
                version,
                identity: Identity { sources, target, ..Identity::default() },
                boot,
                host,
                pid,
                unix_seconds
            }
        ),
        (any::<u32>(), bytes(), any::<(u64, i64, u32, u64)>(), any::<u64>(), bytes()).prop_map(
            |(session, path, (size, secs, nanos, version), chunk, token)| Record::Opened {
                session,
                path,
                stamp: Stamp { size, mtime: Time { secs, nanos }, version },
                chunk,
                token: Token(token.into())
            }
        ),
        (any::<u32>(), any::<u32>(), bytes(), any::<Option<u128>>())
            .prop_map(|(session, index, tag, hash)| Record::WriteOutcome { session, receipt: Receipt { index, tag: tag.into(), hash } }),
        (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(session, index, bytes)| Record::Part { session, index, bytes }),
        any::<u32>().prop_map(|session| Record::Committed { session }),
        any::<u32>().prop_map(|session| Record::Dropped { session }),
        (any::<u32>(), bytes(), prop::collection::vec(bytes(), 0..5)).prop_map(|(bundle, dir, leaves)| Record::Intent {
            bundle,
            dir,
            leaves
        }),
        any::<u32>().prop_map(|bundle| Record::Placed { bundle }),
        Just(Record::Finished),
    ]
}

proptest! {
    #[test]
    fn records_round_trip_and_no_part_of_one_is_one(record in a_record()) {
        let mut payload = Vec::new();
        record.encode(&mut payload);
        let decoded = Record::decode(&payload);
        prop_assert_eq!(decoded.as_ref(), Some(&record));
        for end in 0..payload.len() {
            if let Some(shorter) = Record::decode(&payload[..end]) {
                // Only a list may end earlier, at a whole name.
                prop_assert!(matches!(shorter, Record::Intent { .. }), "{:?} of {:?}", shorter, &record);
            }
        }
        payload.push(1);
        prop_assert!(Record::decode(&payload).is_none_or(|longer| longer != record));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), frames in prop::collection::vec(a_record(), 0..20)) {
        let _any = Record::decode(&bytes);
        let mut log = log(&frames);
        let _any = fold(&log).into_progress(false);
        log.extend_from_slice(&bytes);
        let _any = fold(&log);
        let _any = fold(&[&HEADER[..], &bytes].concat());
    }

    #[test]
    fn what_is_compacted_folds_to_the_same(records in prop::collection::vec(a_record(), 0..30), cut in any::<prop::sample::Index>()) {
        let mut records = records;
        records.splice(0..0, story().into_iter().take(cut.index(20)));
        let before = fold(&log(&records));
        let mut out = Vec::new();
        let length = compact::write(&before, &begun(BOOT), &mut out).unwrap();
        prop_assert_eq!(length, out.len() as u64);
        let after = fold(&out);
        prop_assert_eq!(&after.sessions, &before.sessions);
        prop_assert_eq!(&after.open, &before.open);
        let names = |fold: &Fold| fold.unfinished.iter().filter(|(_, leaves)| !leaves.is_empty()).map(|(dir, leaves)| {
            (dir.clone(), leaves.iter().cloned().collect::<BTreeSet<_>>())
        }).collect::<BTreeSet<_>>();
        prop_assert_eq!(names(&after), names(&before));
    }
}

#[test]
fn every_prefix_folds_to_the_records_that_are_whole_in_it() {
    let records = story();
    let whole = log(&records);
    let mut ends = vec![HEADER.len()];
    ends.extend((1..=records.len()).map(|n| log(&records[..n]).len()));
    for cut in 0..=whole.len() {
        let count = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
        let mut expected = Fold::new(BOOT, "node");
        records[..count].iter().cloned().for_each(|record| expected.apply(record));
        let (found, end) = Fold::read(BOOT, "node", &whole[..cut]).unwrap();
        assert_eq!(found, expected, "cut at {cut}");
        assert_eq!(end as usize, if cut < HEADER.len() { 0 } else { ends[count] });
    }
}

#[test]
fn a_flipped_byte_ends_the_log_and_never_changes_what_it_says() {
    let records = story();
    let whole = log(&records);
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bent = whole.clone();
            bent[at] ^= flip;
            let mut reader = Reader::new(&bent[..]).unwrap();
            let mut count = 0;
            while let Some(record) = reader.next().unwrap() {
                assert_eq!(record, records[count], "byte {at} by {flip}");
                count += 1;
            }
            assert!(count < records.len() || at < HEADER.len());
        }
    }
}

#[test]
fn zeros_behind_the_end_are_no_records() {
    let mut torn = log(&story());
    let end = torn.len() as u64;
    torn.extend_from_slice(&[0; 4096]);
    assert_eq!(Fold::read(BOOT, "node", &torn[..]).unwrap().1, end);
}

#[test]
fn the_story_ends_as_told() {
    let progress = fold(&log(&story())).into_progress(false);
    assert!(progress.unfinished(b"a", b"s") && progress.unfinished(b"b\n", b"s") && progress.unfinished(b"b\n", "\u{fe}".as_bytes()));
    assert!(!progress.unfinished(b"a", b"t"), "a later bundle did it");
    assert!(!progress.unfinished(b"a", b"u"), "a later session did it");
    assert!(!progress.unfinished(b"", b"v") && !progress.unfinished_in(b"") && progress.unfinished_in(b"a"));
    let Resume::Continue(session) = progress.take(b"a/x", &[stamp(1000)]) else { panic!("is open") };
    assert_eq!((session.session, session.chunk, session.token.clone()), (0, 100, token("t0")));
    assert_eq!(session.landed.receipts().map(|receipt| receipt.index).collect::<Vec<_>>(), [3, 9]);
    assert!(session.foreign() && session.landed.is_foreign(3), "landed under another boot");
    assert!(!session.landed.is_foreign(9), "landed again under this one");
    assert_eq!(session.bytes(), 200);
    assert_eq!(progress.take(b"a/x", &[stamp(1000)]), Resume::Fresh, "given out once");
    assert_eq!(progress.take(b"y", &[stamp(1000)]), Resume::Fresh, "was dropped");
    assert!(progress.leftovers().is_empty());
}

#[test]
fn a_changed_source_makes_a_session_stale_and_what_nobody_takes_is_left_over() {
    let progress = fold(&log(&story()[..12])).into_progress(false);
    assert!(matches!(progress.take(b"a/x", &[stamp(1001)]), Resume::Stale(session) if session.token == token("t0")));
    let left = progress.leftovers();
    assert_eq!(left.iter().map(|session| &session.path[..]).collect::<Vec<_>>(), [b"y"]);
    assert_eq!(left[0].bytes(), 1, "the last chunk of 1,000 of a byte each");
    assert!(progress.leftovers().is_empty());
}

#[test]
fn a_short_last_chunk_counts_as_the_bytes_it_has() {
    let open = Record::Opened { session: 0, path: b"f".to_vec(), stamp: stamp(1050), chunk: 100, token: token("t") };
    let landed = |index| Record::WriteOutcome { session: 0, receipt: receipt(index) };
    assert_eq!(fold(&log(&[open.clone(), landed(10), landed(2)])).sessions[&0].bytes(), 150);
    assert_eq!(fold(&log(&[open, landed(2)])).sessions[&0].bytes(), 100);
}

#[test]
fn what_landed_of_a_chunk_counts_until_all_of_it_has_or_another_machine_went_on() {
    let open = Record::Opened { session: 0, path: b"f".to_vec(), stamp: stamp(1050), chunk: 100, token: token("t") };
    let part = |index, bytes| Record::Part { session: 0, index, bytes };
    let landed = |index| Record::WriteOutcome { session: 0, receipt: receipt(index) };
    let parts = |records: &[Record]| {
        let fold = fold(&log(records));
        (fold.sessions[&0].landed.parts().collect::<Vec<_>>(), fold.sessions[&0].bytes())
    };
    let mine = [begun(BOOT), open, part(2, 30), part(2, 60), part(4, 10), landed(4), part(11, 1)];
    assert_eq!(parts(&mine), (vec![(2, 60)], 160));
    assert_eq!(parts(&[&mine[..], &[begun(BOOT)]].concat()), (vec![(2, 60)], 160));
    assert_eq!(parts(&[&mine[..], &[begun([9; 16]), part(3, 5)]].concat()), (vec![], 100));
    assert_eq!(parts(&[&mine[..], &[landed(2)]].concat()), (vec![], 200));
}

#[test]
fn a_second_write_under_one_token_inherits_nothing() {
    let open = |session| Record::Opened { session, path: b"f".to_vec(), stamp: stamp(10), chunk: 1, token: token("t") };
    let records = [begun(BOOT), open(0), Record::WriteOutcome { session: 0, receipt: receipt(0) }, open(1)];
    let fold = fold(&log(&records));
    assert_eq!(fold.sessions.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(fold.sessions[&1].landed.count(), 0);
}

#[test]
fn a_large_file_costs_a_few_bits_a_chunk() {
    let chunks = 65_536u32;
    let mut fold = Fold::new(BOOT, "node");
    fold.apply(begun(BOOT));
    fold.apply(Record::Opened { session: 0, path: b"f".to_vec(), stamp: stamp(1 << 40), chunk: 1 << 24, token: token("t") });
    for index in (0..chunks).rev() {
        fold.apply(Record::WriteOutcome { session: 0, receipt: receipt(index) });
    }
    let session = &fold.sessions[&0];
    assert_eq!((session.landed.count(), session.bytes()), (u64::from(chunks), 1 << 40));
    assert!(session.landed.receipts().map(|receipt| receipt.index).eq(0..chunks));
}
