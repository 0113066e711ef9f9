use super::*;

#[test]
fn pages_come_in_order_to_the_end_or_where_it_stops() {
    let fetch = |marker: Option<&u32>| {
        let at = marker.copied().unwrap_or(0);
        Ok((at, (at < 5).then_some(at + 1)))
    };
    for last in [5, 2] {
        let mut seen = Vec::new();
        pages(fetch, &mut |page| {
            seen.push(page);
            if page == last { Flow::Stop } else { Flow::Go }
        })
        .expect("all pages");
        assert_eq!(seen, (0..=last).collect::<Vec<_>>());
    }
}

#[test]
fn a_marker_that_stands_still_is_an_error() {
    let mut count = 0;
    let fetch = |_: Option<&u32>| Ok(((), Some(7)));
    let ended = pages(fetch, &mut |()| {
        count += 1;
        Flow::Go
    });
    assert_eq!((ended.map_err(|e| e.kind()), count), (Err(ErrorKind::Other), 2));
}

#[test]
fn an_error_of_a_later_page_is_the_listings() {
    let fetch = |marker: Option<&u32>| match marker {
        None => Ok(((), Some(1))),
        Some(_) => Err(Error::new(ErrorKind::Denied, "list")),
    };
    assert_eq!(pages(fetch, &mut |()| Flow::Go).map_err(|e| e.kind()), Err(ErrorKind::Denied));
}
