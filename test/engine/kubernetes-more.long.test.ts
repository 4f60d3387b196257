import { engineConformance } from '../support/engine/conformance.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';

engineConformance('kubernetes, the second half', kubernetesUnderTest, {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  share: 'second',
  parts: { forgetsStopped: true, oneOutput: true },
});
