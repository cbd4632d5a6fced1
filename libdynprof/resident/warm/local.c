/* See local.h. */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <sys/vfs.h>

#include "warm/local.h"

#ifndef F2FS_SUPER_MAGIC
#define F2FS_SUPER_MAGIC 0xf2f52010
#endif
#define XFS_MAGIC 0x58465342 /* linux/magic.h may not have these */
#define ZFS_MAGIC 0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e

int dp_is_local(long fd)
{
	static const uint32_t known[] = {EXT4_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, XFS_MAGIC,
		F2FS_SUPER_MAGIC, ZFS_MAGIC, BCACHEFS_MAGIC, RAMFS_MAGIC};
	struct statfs fs;
	if (raw(SYS_fstatfs, fd, &fs) != 0)
		return 0;
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if ((uint32_t)fs.f_type == known[i])
			return 1;
	return 0;
}
