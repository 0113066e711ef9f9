//! What proves an object: CRCs and how they combine, composite checksums, ETags.
