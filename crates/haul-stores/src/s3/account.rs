//! Who asks, and whom: credentials by the whole AWS chain, the endpoint, the region, trust in certificates, proxies.
