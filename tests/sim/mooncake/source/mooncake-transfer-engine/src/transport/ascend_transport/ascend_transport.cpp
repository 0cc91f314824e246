#include <acl/acl_rt.h>

int llm_datadist_answer();
int metadef_answer();

int ascend_answer() { return aclrtAnswer() + llm_datadist_answer() + metadef_answer(); }
