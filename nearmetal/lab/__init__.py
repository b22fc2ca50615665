"""The virtual rack: two QEMU nodes with NUMA, SMT, SR-IOV and an IOMMU."""
