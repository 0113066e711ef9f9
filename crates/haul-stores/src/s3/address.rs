//! Where a bucket is: endpoint, path or virtual-host style, names of buckets, keys in URLs.
